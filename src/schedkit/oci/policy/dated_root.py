"""The trusted root in use, as a document with a date: the embedded one, or an updated one that is newer.

Nothing here reads what is in it, which would load the cryptography that a kept verdict does without.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path
from typing import Final

import msgspec

from schedkit.disk import guarded
from schedkit.model.images.references import shown
from schedkit.model.trust.policy import TrustPolicy

SIGSTORE: Final = "https://tuf-repo-cdn.sigstore.dev"
"""The public Sigstore's update repository: whose root the embedded one is an older copy of."""
TRUSTED_ROOT: Final = "trusted_root.json"
ORIGIN: Final = "origin.json"
MAX_ROOT: Final = 1 << 20
OLD_AFTER: Final = dt.timedelta(days=180)
"""The age from which users are told to refresh the root."""

_UPDATE: Final = "run `schedctl trust update`"


class Origin(msgspec.Struct, frozen=True):
    """When somebody last looked for the newest root, and where; for a package, when that was released."""

    taken: dt.date
    source: str


class DatedRoot(msgspec.Struct, frozen=True):
    """A trusted root, and since when it is known to be the newest."""

    document: bytes
    origin: Origin
    why_not_newer: str | None = None
    """Why an updated root that is there is not this one."""

    @property
    def fingerprint(self) -> str:
        """What tells this root from any other."""
        return hashlib.sha256(self.document).hexdigest()

    def age(self, today: dt.date) -> dt.timedelta:
        """How long ago somebody looked for a newer one."""
        return today - self.origin.taken

    def warning(self, today: dt.date, *, remedy: str = _UPDATE) -> str | None:
        """What users should be told about it, and to do; None: nothing."""
        if self.why_not_newer is not None:
            return self.why_not_newer
        days = self.age(today).days
        if self.age(today) <= OLD_AFTER:
            return None
        why = "it does not know newer authorities and logs"
        return f"the trusted root is {days} days old, and {why}: {remedy}"


def embedded() -> DatedRoot:
    """The public Sigstore's root as this package has it: the one that needs no network."""
    origin = msgspec.json.decode(embedded_file(ORIGIN), type=Origin)
    return DatedRoot(embedded_file(TRUSTED_ROOT), origin)


def embedded_file(name: str) -> bytes:
    """One of the files that `tools/sigstoreroot.py` keeps up to date."""
    return (Path(__file__).with_name("embedded") / name).read_bytes()


def current(folder: Path, *, source: str = SIGSTORE) -> DatedRoot:
    """The updated root of that folder, or the embedded one where there is none that can be believed.

    A root from elsewhere than `source` is not: other authorities count for policies alone that name them.
    """
    packaged = embedded()
    try:
        origin = msgspec.json.decode(guarded.read_file(folder, ORIGIN, limit=MAX_ROOT), type=Origin)
        updated = DatedRoot(guarded.read_file(folder, TRUSTED_ROOT, limit=MAX_ROOT), origin)
    except FileNotFoundError:
        return packaged
    except (OSError, ValueError) as error:
        return msgspec.structs.replace(
            packaged, why_not_newer=f"the updated root in {folder} is not used: {error}"
        )
    if (why_not := _why_not(updated.origin, source)) is not None:
        return msgspec.structs.replace(
            packaged, why_not_newer=f"the updated root in {folder} is not used: {why_not}"
        )
    return updated if updated.origin.taken >= packaged.origin.taken else packaged


def _why_not(origin: Origin, source: str) -> str | None:
    if origin.source != source:
        return f"it is from {shown(origin.source)}; to use it, name it as trustedRoot in a policy"
    tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)
    return f"its date, {origin.taken}, is in the future" if origin.taken > tomorrow else None


def document_for(policy: TrustPolicy, usual: DatedRoot) -> bytes:
    """The trusted root that the policy names, or the usual one."""
    return policy.trusted_root.content if policy.trusted_root is not None else usual.document
