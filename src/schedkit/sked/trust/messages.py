"""What a manager and the processes that it starts say to each other, in JSON."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

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


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was found out."""

    ticket: str
    kind: Literal["trusted", "known", "distrusted", "unreachable"]
    current: str = ""  # what the image's name means; empty: that could not be found out
    verdict: bytes = b""  # of verification, if it is `trusted`
    parts: tuple[str, ...] = ()  # digests that the verified one lists for platforms, if it is `trusted`
    step: int = 0  # that failed, if it is `distrusted`
    why: str = ""
    retry_after_s: float | None = None


class Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The administrator's rules as they lie in their folder."""

    document: Any = None
    files: dict[str, bytes] = {}  # that the document names
    complaint: str = ""  # why they cannot be used; empty: they can
