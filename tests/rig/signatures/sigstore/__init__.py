"""An offline stand-in for Sigstore: certificate authority, CT log and transparency log on loopback.

Real `cosign sign` and `cosign verify` work against it without any `--insecure-…` flag, because all
evidence is genuine: certificates carry a timestamp of the CT log, log entries a promise, a proof and a
signed checkpoint. Only what is signed is not looked at: the log records whatever it is given.

It runs as a thread of the test process, not as a process of its own: tests that forge evidence need its
keys and its log in hand, and a daemon thread cannot outlive its process either.
"""

from __future__ import annotations

from rig.signatures.sigstore.standin import Sigstore, Trust

__all__ = ["Sigstore", "Trust"]
