"""The steps of verification, and what a refusal says.

The steps are numbered here and described, under the same numbers, in docs/trust/verification.md. `Refusal`
names the one that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from schedkit.model.images.references import brief

REVISION: Final = 3
"""Of the steps below and all that decides them. Whoever changes one raises it: older verdicts end with it."""


class Step(IntEnum):
    """The steps of verification, in their order."""

    RULE = 1
    """Somebody is trusted for this repository."""
    DIGEST = 2
    """The reference is resolved to a digest, and the bytes have it."""
    EVIDENCE = 3
    """There is evidence that refers to this digest."""
    FORMAT = 4
    """The evidence is small and well-formed."""
    STATEMENT = 5
    """What was signed is a signature of an image, and nothing else."""
    SUBJECT = 6
    """What was signed names this digest."""
    LOG = 7
    """The signature is in a transparency log that is trusted."""
    ENTRY = 8
    """The log's entry is about this signature, this statement and this signer."""
    TIME = 9
    """The time of signing is known from somebody who is trusted."""
    CERTIFICATE = 10
    """The certificate was issued by a trusted authority, for signing, and was valid at that time."""
    ISSUANCE = 11
    """The certificate itself was logged when it was issued."""
    SIGNATURE = 12
    """The signature is right."""
    SIGNER = 13
    """The signer is one of those that are trusted for this repository."""


class Refusal(Exception):  # noqa: N818 - the word that users read
    """Verification ended with no: at which step, and why."""

    def __init__(self, step: Step, why: str, *, others: Sequence[Refusal] = ()) -> None:
        super().__init__(brief(why))
        self.step = step
        self.why = brief(why)
        self.others = tuple(others)
        """What else was found and refused before, when there was more than one signature."""

    def __str__(self) -> str:
        return f"{self.why} (step {int(self.step)})"
