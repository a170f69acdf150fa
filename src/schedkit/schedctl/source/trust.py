"""Whom this machine trusts: the policy that was named, and whose word counts in signatures without keys."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from schedkit.model.images.references import Reference
from schedkit.model.trust.policy import InvalidPolicy, TrustPolicy, default_policy
from schedkit.model.trust.verified import Verified
from schedkit.oci.policy import dated_root
from schedkit.oci.policy.patterns import Re2Pattern
from schedkit.schedctl.settings.user_folders import data_folder, home

if TYPE_CHECKING:
    from schedkit.model.images.content import Content
    from schedkit.oci.images.ports import Source
    from schedkit.oci.sigstore.trusted_root import TrustedRoot

DEFAULT = "built in"


class Trust(msgspec.Struct, frozen=True):
    """A policy with the root that it is judged by, and where both came from."""

    policy: TrustPolicy
    policy_origin: str
    document: bytes  # the trusted root
    root_origin: str
    root_age_days: int | None  # None: the policy brought its own
    warnings: tuple[str, ...] = ()

    def admit(self, source: Source, reference: Reference, content: Content | None = None) -> Verified:
        """As `verify`, but a verdict that was reached before is enough: for what is run again and again.

        `content` is what the reference means, if it was resolved before.
        """
        from schedkit.oci.policy.verdict_cache import Verdicts, verify_once  # noqa: PLC0415 - `verify` does without

        return verify_once(Verdicts(_kept_folder()), source, reference, self.policy, self.document, content)

    def verify(self, source: Source, reference: Reference) -> Verified:
        """The proof that somebody trusted signed the image; raises `Refusal` or `RegistryError`."""
        from schedkit.oci.sigstore import verify  # noqa: PLC0415 - `admit` may do without

        return verify.verify(source, reference, self.policy, self.understood())

    def understood(self) -> TrustedRoot:
        """The root, read; `InvalidPolicy` if it or a key of the policy cannot be used."""
        from schedkit.oci.policy import files  # noqa: PLC0415 - `admit` may do without
        from schedkit.oci.sigstore import trusted_root  # noqa: PLC0415 - `admit` may do without

        files.check_policy(self.policy)
        try:
            return trusted_root.parse_root(self.document)
        except trusted_root.InvalidRoot as error:
            raise InvalidPolicy(f"the root from {self.root_origin} cannot be used: {error}") from error


def read_trust(path: str | None) -> Trust:
    """The policy in that file, or the one that is built in; by the root it names, or the newest there is."""
    policy, origin = _read_policy(path) if path else default_policy(Re2Pattern), path or DEFAULT
    if policy.trusted_root is not None:
        return Trust(policy, origin, policy.trusted_root.content, policy.trusted_root.path, None)
    usual, today = dated_root.current(root_folder(os.environ)), datetime.now(UTC).date()
    warning = usual.warning(today)
    return Trust(
        policy,
        origin,
        usual.document,
        usual.origin.source,
        usual.age(today).days,
        (warning,) if warning else (),
    )


def _read_policy(path: str) -> TrustPolicy:
    from schedkit.oci.policy.file_cache import Readings  # noqa: PLC0415 - as above
    from schedkit.oci.policy.files import read_policy  # noqa: PLC0415 - the built-in one needs no files

    return read_policy(Path(path), Readings(_kept_folder()).load)


def _kept_folder() -> Path:
    from schedkit.oci.policy.verdict_cache import default_folder  # noqa: PLC0415 - as above

    return default_folder(os.environ, home())


def root_folder(environment: Mapping[str, str]) -> Path:
    """Where `schedctl trust update` keeps a newer root of the public Sigstore."""
    return data_folder(environment) / "sigstore"


def root_folder_of(environment: Mapping[str, str], url: str) -> Path:
    """Where it keeps the root of that Sigstore; each one's by itself, since no two trust the same."""
    if url == dated_root.SIGSTORE:
        return root_folder(environment)
    return data_folder(environment) / "sigstores" / hashlib.sha256(url.encode()).hexdigest()[:16]
