"""One signature with all that came with it: the same value, however it was stored.

`bundles` and `simplesigning` make it from bytes; the steps after that do not care which.
"""

from __future__ import annotations

import datetime as dt

import msgspec
from cryptography import x509


class InclusionProof(msgspec.Struct, frozen=True):
    """The way from an entry to the root that the log has signed."""

    index: int
    size: int
    root: bytes
    path: tuple[bytes, ...]
    checkpoint: str


class LogEntry(msgspec.Struct, frozen=True):
    """A line of a transparency log, with the log's promise or proof that it is there."""

    log_id: bytes
    index: int
    body: bytes
    kind: str | None
    """What the entry says it is, kind and version; None when only its body does."""
    integrated: dt.datetime | None
    """When the log says it took the entry: worth something with the promise only."""
    promise: bytes | None
    proof: InclusionProof | None


class SignedStatement(msgspec.Struct, frozen=True):
    """What was signed, by whom, and the evidence about it."""

    found: str
    """Where it was found, for people."""
    enveloped: bool
    """Whether the payload came in an envelope, which says what it is; cosign 2's layers have none."""
    payload_type: str
    payload: bytes
    message: bytes
    """The bytes under the signature: the payload, or the envelope's encoding of it."""
    signature: bytes
    certificate: x509.Certificate | None
    """None: signed with a key that has to be known."""
    entries: tuple[LogEntry, ...]
    timestamps: tuple[bytes, ...]
    needs_proof: bool
    """Whether a promise alone does not do."""
