"""`schedctl trust show`: the policy in words, and the age of the root it is judged by. No network."""

from __future__ import annotations

import click
import msgspec

from schedkit.model.trust.policy import Exactly, Identity, Pattern, Rule
from schedkit.schedctl.answers.answer import Answer, Block, Fields, Table, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.source.trust import Trust, read_trust
from schedkit.schedctl.verbs.image_flags import trust_policy_option


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who may sign."""

    repositories: str  # where; "*" where no other rule counts
    kind: str  # key or identity
    who: str  # the key's file, or the subject
    issuer: str | None = None  # of an identity
    source_repository: str | None = None  # that a workflow has to run for; null: any
    source_repository_owner: str | None = None  # of that repository; null: any


class RootFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Whose word counts in signatures without keys."""

    source: str
    age_days: int | None  # null: the policy brought its own
    authorities: int
    logs: int


class TrustShown(Result, frozen=True, kw_only=True):
    """Who may sign what runs here."""

    policy: str
    fingerprint: str  # changes with the policy and every file it names
    log: str | None  # the log that must have each entry; null: any that the root knows
    signers: tuple[Signer, ...]
    root: RootFacts


@click.command()
@trust_policy_option
@answering
def command(trust_policy: str | None) -> Answer:
    """Show who may sign, for which repositories, and by which policy and root."""
    trust = read_trust(trust_policy)
    shown = describe(trust)
    return Answer(shown, text(shown), warnings=trust.warnings)


def describe(trust: Trust) -> TrustShown:
    """The policy and its root, in the words of answers."""
    policy, root = trust.policy, trust.understood()
    rules = {**policy.repositories, "*": policy.rule}
    return TrustShown(
        policy=trust.policy_origin,
        fingerprint=policy.fingerprint,
        log=policy.log_url,
        signers=tuple(signer for name, rule in rules.items() for signer in _signers(name, rule)),
        root=RootFacts(
            source=trust.root_origin,
            age_days=trust.root_age_days,
            authorities=len(root.authorities),
            logs=len(root.logs),
        ),
    )


def _signers(repositories: str, rule: Rule) -> list[Signer]:
    keys = [Signer(repositories=repositories, kind="key", who=key.path) for key in rule.keys]
    return [*keys, *(_identity(repositories, one) for one in rule.identities)]


def _identity(repositories: str, one: Identity) -> Signer:
    return Signer(
        repositories=repositories,
        kind="identity",
        who=_words(one.subject),
        issuer=_words(one.issuer),
        source_repository=_words(one.repository) if one.repository else None,
        source_repository_owner=_words(one.owner) if one.owner else None,
    )


def _words(matcher: Exactly | Pattern) -> str:
    return matcher.text if isinstance(matcher, Exactly) else f"/{matcher.expression}/"


def text(shown: TrustShown) -> list[Block]:
    """As a person reads it."""
    age = "" if shown.root.age_days is None else f", {shown.root.age_days} days old"
    head = Fields(
        [
            ("Policy", shown.policy),
            ("Fingerprint", shown.fingerprint),
            ("Log", shown.log or "any log that the root knows"),
            (
                "Root",
                f"{shown.root.source}{age}: {shown.root.authorities} authorities, {shown.root.logs} logs",
            ),
        ]
    )
    if not shown.signers:
        return [head, "", "No signer is trusted."]
    rows = [
        (each.repositories, each.kind, each.who, each.issuer or "-", _source(each)) for each in shown.signers
    ]
    return [head, "", Table(("REPOSITORIES", "KIND", "WHO", "ISSUER", "SOURCE"), rows)]


def _source(signer: Signer) -> str:
    owner = signer.source_repository_owner
    asked = (signer.source_repository, owner and f"owned by {owner}")
    return ", ".join(filter(None, asked)) or "-"
