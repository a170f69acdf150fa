"""What can come of asking who signed an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from schedkit.model.api.conditions import Reason
from schedkit.model.images.references import Digest
from schedkit.model.trust.verified import Verified


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that an answer depends on, but what lies in the registry."""

    image: str  # as users write it
    pinned: Digest | None  # what the pods are bound to; None: nothing yet
    policy: str  # the fingerprint of the policy

    @property
    def names_digest(self) -> bool:
        """Whether the user named a digest, which means the same for ever."""
        return "@" in self.image


@dataclass(frozen=True, slots=True)
class Trusted:
    """Somebody who is trusted signed it."""

    verified: Verified
    current: Digest  # what the image's name means by now
    parts: frozenset[Digest] = frozenset()  # what it lists for platforms: some runtimes name only these

    def covers(self, digest: str) -> bool:
        """Whether it is about these bytes."""
        return digest == self.verified.digest or digest in self.parts


@dataclass(frozen=True, slots=True)
class Distrusted:
    """Nobody who is trusted did: the step of verification that failed, and why."""

    step: int
    why: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """It could not be found out."""

    reason: Reason
    why: str
    retry_after_s: float | None = None  # None: nobody said


Verdict: TypeAlias = Trusted | Distrusted | Undecided
