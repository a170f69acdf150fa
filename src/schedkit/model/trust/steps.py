"""The steps of verification, what a refusal says, and the proof that a verification leaves.

The steps are numbered here and described, under the same numbers, in docs/trust/verification.md. `Refusal`
names the one that failed. `Verified` is made by verification alone: who holds one need not ask again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from enum import IntEnum
from typing import Final, NoReturn, final

from schedkit.model.images.references import Digest, brief
from schedkit.model.trust.policy import Mode

REVISION: Final = 3


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


_PROOF: Final = object()


@final
@dataclass(frozen=True, slots=True)
class Verified:
    """The proof that an image passed a policy. Nothing but verification makes one, so it can be asked for."""

    digest: Digest
    repository: str
    signer: str
    """The identity in the certificate, or the name of the key in the policy."""
    issuer: str | None
    """Who vouched for the identity; None for a key."""
    time: dt.datetime | None
    """When it was signed; None when nobody trusted says so, as with a key without a log."""
    mode: Mode
    proof: InitVar[object]

    def __post_init__(self, proof: object) -> None:
        if proof is not _PROOF:
            raise TypeError("only verification makes a Verified: call schedkit.oci.sigstore.verify.verify")

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("a Verified has no variants: whoever asks for one must get what verification made")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Verified is not copied or sent: keep it, or verify again")


def _attest(
    *, digest: Digest, repository: str, signer: str, issuer: str | None, time: dt.datetime | None, mode: Mode
) -> Verified:
    """For `oci.sigstore.verify`, which proved it, and `oci.policy.verdict_cache`, which kept the proof."""
    return Verified(digest, repository, signer, issuer, time, mode, _PROOF)
