"""Whom this machine trusts: the policy that was named, and whose word counts in signatures without keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from schedkit.model.images import Reference
from schedkit.model.trust import TrustPolicy, Verified, default_policy
from schedkit.oci import verification
from schedkit.oci.policyfiles import read_policy
from schedkit.oci.sources import Source
from schedkit.oci.trustedroots import InvalidRoot, TrustedRoot, embedded, parse_root
from schedkit.schedctl.errors import Problem

DEFAULT = "built in"


@dataclass(frozen=True, slots=True)
class Trust:
    """A policy with the root that it is judged by, and where both came from."""

    policy: TrustPolicy
    policy_origin: str
    root: TrustedRoot
    root_origin: str
    root_age_days: int | None  # None: the policy brought its own
    warnings: tuple[str, ...] = ()

    def verify(self, source: Source, reference: Reference) -> Verified:
        """The proof that somebody trusted signed the image; raises `Refusal` or `RegistryError`."""
        return verification.verify(source, reference, self.policy, self.root)


def trust_policy_option(command: Any) -> Any:  # noqa: ANN401 - click's own type of what it decorates
    """The flag by which every verb that verifies is told whom to trust."""
    return click.option(
        "--trust-policy",
        envvar="SCHEDCTL_TRUST_POLICY",
        show_envvar=True,
        metavar="PATH",
        help="Whom to trust, instead of schedkit's own workflows.",
    )(command)


def read_trust(path: str | None) -> Trust:
    """The policy in that file, or the one that is built in."""
    policy = read_policy(Path(path)) if path else default_policy()
    origin = path or DEFAULT
    if policy.trusted_root is not None:
        root = _own_root(policy.trusted_root.path, policy.trusted_root.pem)
        return Trust(policy, origin, root, policy.trusted_root.path, None)
    kept = embedded()
    today = datetime.now(UTC).date()
    days = kept.age(today).days
    warning = f"Sigstore's root is {days} days old; `schedctl trust update` refreshes it"
    old = (warning,) if kept.is_old(today) else ()
    return Trust(policy, origin, kept.root, kept.source, days, old)


def _own_root(path: str, document: bytes) -> TrustedRoot:
    try:
        return parse_root(document)
    except InvalidRoot as error:
        raise Problem(f"the trusted root {path} cannot be used", why=str(error)) from error
