"""What a manager and the processes that it starts say to each other, in JSON."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, Literal

import msgspec

from schedkit.model.images.references import Digest
from schedkit.model.trust.policy import Mode
from schedkit.model.trust.verified import Verified

# what both tell users whose operator is older than the authorities that signers use by now
NEWER_ROOT: Final = "run a newer operator, or name a newer root as trustedRoot in the policy"


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the manager wants to know, with all that it takes to find it out."""

    ticket: str  # comes back with the answer
    image: str
    pinned: str | None  # the digest that counts, whatever the name means; None: what the name means
    known: str | None  # a digest that was verified before by this policy; None: none was
    policy: Any  # the document; None: the built-in policy
    files: dict[str, bytes]  # that the policy names
    auth_file: str | None
    ca_file: str | None
    insecure: tuple[str, ...]


class Attested(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What verification proved, in the words of the process that did it."""

    digest: str
    repository: str
    signer: str
    issuer: str | None
    time: dt.datetime | None
    mode: Mode


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was found out."""

    ticket: str
    kind: Literal["trusted", "known", "distrusted", "unreachable"]
    current: str = ""  # what the image's name means; empty: that could not be found out
    verdict: Attested | None = None  # of verification, if it is `trusted`
    parts: tuple[str, ...] = ()  # digests that the verified one lists for platforms, if it is `trusted`
    step: int = 0  # that failed, if it is `distrusted`
    why: str = ""
    retry_after_s: float | None = None


def attest(verified: Verified) -> Attested:
    """For the manager: what this process has verified."""
    return Attested(
        str(verified.digest),
        verified.repository,
        verified.signer,
        verified.issuer,
        verified.time,
        verified.mode,
    )


def believe_process(attested: Attested, *, repository: str, wanted: str | None) -> Verified | None:
    """What the verifier's process has verified; None: it is about another image than was asked about.

    The caller has seen that the answer is to its own request. The process runs our own code on a registry's
    bytes: it is believed about signatures, and about nothing that was not asked.
    """
    digest = Digest(attested.digest)
    if attested.repository != repository or wanted not in (None, digest):
        return None
    return Verified(digest, repository, attested.signer, attested.issuer, attested.time, attested.mode)


class Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The administrator's rules as they lie in their folder."""

    document: Any = None
    files: dict[str, bytes] = {}  # that the document names
    complaint: str = ""  # why they cannot be used; empty: they can
