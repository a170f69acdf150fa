"""What a verification leaves, and what is demanded before an image comes near a kernel.

`Verified` is a plain value, because Python hides no constructor. Three places make one, and each checks what
it rests on; a test keeps the list:

* `oci.sigstore.verify`: the numbered steps were taken just now;
* `oci.policy.verdict_cache`: they were taken before, and the verdict was kept where only this user can write;
* `sked.trust.messages`: the verifier's process took them, and this is its answer to the very request.

Pulling, loading, creating and running demand an `Admission`: no string, reference or `None` passes for one.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TypeAlias

from schedkit.model.images.references import Digest
from schedkit.model.trust.policy import Mode


@dataclass(frozen=True, slots=True)
class Verified:
    """Somebody whom a policy trusts signed the image of this digest, in this repository."""

    digest: Digest
    repository: str
    signer: str
    """The identity in the certificate, or the name of the key in the policy."""
    issuer: str | None
    """Who vouched for the identity; None for a key."""
    time: dt.datetime | None
    """When it was signed; None when nobody trusted says so, as with a key without a log."""
    mode: Mode


@dataclass(frozen=True, slots=True)
class AllowedUnsigned:
    """Nobody was asked who signed the image, because a user said that nobody has to be."""

    reason: str
    """The setting that says so, by its flag; `schedctl config` tells who has set it."""


Admission: TypeAlias = Verified | AllowedUnsigned


def signer_of(admission: Admission) -> str | None:
    """Who signed the image; None: nobody was asked."""
    return admission.signer if isinstance(admission, Verified) else None
