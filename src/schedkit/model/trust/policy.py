"""Trust policies: who may sign what runs in a kernel, and how what people wrote about it is read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from schedkit.model.images import grammar
from schedkit.model.images.references import canonical_prefix, shown, whole_name
from schedkit.model.images.strictjson import is_whole

GITHUB_ACTIONS: Final = "https://token.actions.githubusercontent.com"
OUR_WORKFLOWS: Final = r"^https://github\.com/schedkit/.*"
OUR_OWNER: Final = "https://github.com/schedkit"
PUBLIC_LOG: Final = "https://rekor.sigstore.dev"
MAX_TEXT: Final = 2048

# a policy may have a rule under this name and another under docker.io, from when they were two
_LATE_ALIAS: Final = "registry.hub.docker.com"
_REPOSITORY: Final = "sourceRepository"
_OWNER: Final = "sourceRepositoryOwner"
_MAX_SIGNERS: Final = 64
_MAX_RULES: Final = 256
_URL: Final = r"(?i:https?://(?P<host>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(:[0-9]{1,5})?(/[!-~]*)?)"


class Mode(StrEnum):
    """How a signer is known."""

    KEYLESS = "keyless"
    KEY = "key"


class InvalidPolicy(ValueError):  # noqa: N818 - named after what is wrong
    """A trust policy that cannot be used: where, why, and what to write instead."""


class InvalidPattern(ValueError):  # noqa: N818 - as above
    """A regular expression that is not accepted, and why."""


class NamedFile(msgspec.Struct, frozen=True):
    """A file that a policy names, a public key or the trusted root, with what was in it."""

    path: str
    content: bytes


class Exactly(msgspec.Struct, frozen=True):
    """A name that has to be this one."""

    text: str

    def matches(self, text: str) -> bool:
        """Whether it is this one."""
        return len(text) <= MAX_TEXT and text == self.text


class Pattern(Protocol):
    """A regular expression that a name has to match as a whole, by an engine that the model does not know."""

    @property
    def expression(self) -> str:
        """As it was written."""

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""


class SourceRepository(msgspec.Struct, frozen=True):
    """The repository that a workflow ran for, and whose it is, as URLs; None: nobody vouches for it."""

    url: str | None = None
    owner: str | None = None


class Identity(msgspec.Struct, frozen=True):
    """Whom an issuer may vouch for.

    A workflow that others may call is the subject whoever calls it; only the source says who did.
    """

    issuer: Exactly | Pattern
    subject: Exactly | Pattern
    repository: Exactly | Pattern | None = None  # None: any, and none at all
    owner: Exactly | Pattern | None = None  # as above

    def names(self, *, issuer: str, subject: str) -> bool:
        """Whether issuer and subject, each as a whole, are those that are meant."""
        return self.issuer.matches(issuer) and self.subject.matches(subject)

    def matches(self, *, issuer: str, subject: str, source: SourceRepository) -> bool:
        """Whether it names them, and the source is one that is meant, where that is asked."""
        wanted = ((self.repository, source.url), (self.owner, source.owner))
        return self.names(issuer=issuer, subject=subject) and all(
            matcher is None or (found is not None and matcher.matches(found)) for matcher, found in wanted
        )


class Rule(msgspec.Struct, frozen=True):
    """Who may sign, for some repositories."""

    keys: tuple[NamedFile, ...] = ()
    identities: tuple[Identity, ...] = ()
    require_log: bool = False
    """Whether a signature by key must be in a transparency log; one without a key always must."""

    @property
    def trusts_nobody(self) -> bool:
        """Whether nothing can ever pass."""
        return not self.keys and not self.identities


class TrustPolicy(msgspec.Struct, frozen=True):
    """Who may sign what; an empty one trusts nobody."""

    rule: Rule = Rule()
    """For repositories that no other rule names."""
    repositories: dict[str, Rule] = {}
    """By registry, folder or repository; the longest name that fits counts, alone."""
    log_url: str | None = None
    """The log that must have the entry, with the logs below its host name; None: any trusted one."""
    trusted_root: NamedFile | None = None
    """A file with the authorities and logs to trust instead of Sigstore's own."""

    def rule_for(self, repository: str) -> Rule:
        """The rule with the longest name that is the repository, or a folder that it is in."""
        meant = canonical_prefix(repository)
        # of two spellings of one name the longer one, which can mean nothing else
        name = max(self.repositories, key=lambda name: (_fit(meant, name), len(name)), default="")
        return self.repositories[name] if _fit(meant, name) else self.rule

    @property
    def log_host(self) -> str | None:
        """The host name of `log_url`."""
        match = re.fullmatch(_URL, self.log_url) if self.log_url else None
        return match["host"].lower() if match else None

    @property
    def asks_usual_root(self) -> bool:
        """Whether a verdict can depend on Sigstore's own authorities and logs."""
        rules = (self.rule, *self.repositories.values())
        return self.trusted_root is None and any(rule.identities or rule.require_log for rule in rules)

    @property
    def fingerprint(self) -> str:
        """Changes with everything that could change a verdict, file contents included."""
        return hashlib.sha256(msgspec.json.encode(_content(self), order="deterministic")).hexdigest()


Read: TypeAlias = Callable[[str], bytes]
# the pattern that an expression describes; or an InvalidPattern
ParsePattern: TypeAlias = Callable[[str], Pattern]


def default_policy(parse_pattern: ParsePattern) -> TrustPolicy:
    """Without a policy file: what schedkit's own workflows signed for schedkit, with the public Sigstore."""
    ours = Identity(Exactly(GITHUB_ACTIONS), parse_pattern(OUR_WORKFLOWS), owner=Exactly(OUR_OWNER))
    return TrustPolicy(Rule(identities=(ours,)), log_url=PUBLIC_LOG)


def parse_policy(document: object, read: Read, parse_pattern: ParsePattern) -> TrustPolicy:
    """The policy that a decoded file describes; `read` gets the files it names.

    Raises `InvalidPolicy`, which says where in the document, and lets errors of `read` through.
    """
    known = ("keys", "identities", "requireLog", "rekorURL", "trustedRoot", "repositories")
    fields = known_fields(document if document is not None else {}, "the policy", known)
    return TrustPolicy(
        rule=_rule(fields, "", read, parse_pattern),
        repositories=_repositories(fields.get("repositories", []), read, parse_pattern),
        log_url=_log_url(fields["rekorURL"]) if "rekorURL" in fields else None,
        trusted_root=_file(fields["trustedRoot"], "trustedRoot", read) if "trustedRoot" in fields else None,
    )


def _rule(fields: Mapping[str, Any], where: str, read: Read, parse_pattern: ParsePattern) -> Rule:
    keys = _items(fields.get("keys", []), f"{where}keys", _MAX_SIGNERS)
    identities = _items(fields.get("identities", []), f"{where}identities", _MAX_SIGNERS)
    require_log = fields.get("requireLog", False)
    if not isinstance(require_log, bool):
        raise InvalidPolicy(f"{where}requireLog is {_said(require_log)}; write true or false")
    return Rule(
        tuple(_key(item, f"{where}keys[{at}]", read) for at, item in enumerate(keys)),
        tuple(
            _identity(item, f"{where}identities[{at}]", parse_pattern) for at, item in enumerate(identities)
        ),
        require_log,
    )


def _key(item: object, where: str, read: Read) -> NamedFile:
    fields = known_fields(item, where, ("path",))
    if "path" not in fields:
        raise InvalidPolicy(f"{where} names no file; write `path: FILE` with a public key in PEM")
    return _file(fields["path"], f"{where}.path", read)


def _file(value: object, where: str, read: Read) -> NamedFile:
    path = _text(value, where)
    return NamedFile(path, read(path))


def _identity(item: object, where: str, parse_pattern: ParsePattern) -> Identity:
    names = ("issuer", "subject", _REPOSITORY, _OWNER)
    fields = known_fields(item, where, [key for name in names for key in (name, f"{name}RegExp")])

    def asked(name: str) -> Exactly | Pattern:
        return _matcher(fields, name, where, parse_pattern)

    def asked_if_written(name: str) -> Exactly | Pattern | None:
        """What need not be asked; but a key with nothing after its colon was meant to ask something."""
        return asked(name) if fields.keys() & {name, f"{name}RegExp"} else None

    return Identity(
        asked("issuer"), asked("subject"), asked_if_written(_REPOSITORY), asked_if_written(_OWNER)
    )


def _matcher(
    fields: Mapping[str, Any], name: str, where: str, parse_pattern: ParsePattern
) -> Exactly | Pattern:
    exact, expression = fields.get(name), fields.get(f"{name}RegExp")
    if (exact is None) == (expression is None):
        raise InvalidPolicy(f"{where} needs exactly one of {name} and {name}RegExp")
    if exact is not None:
        return Exactly(_text(exact, f"{where}.{name}"))
    place = f"{where}.{name}RegExp"
    try:
        return parse_pattern(_text(expression, place))
    except InvalidPattern as error:
        raise InvalidPolicy(f"{place} is not an accepted regular expression: {error}") from error


def _repositories(value: object, read: Read, parse_pattern: ParsePattern) -> dict[str, Rule]:
    """By name. Docker's registry used to be another one under one of its names: a rule under that gives way.

    It spoke of nothing that a rule under another name speaks of, and shall not overrule that now.
    """
    rules: dict[str, Rule] = {}
    late: dict[str, Rule] = {}
    for at, item in enumerate(_items(value, "repositories", _MAX_RULES)):
        where = f"repositories[{at}]"
        fields = known_fields(item, where, ("match", "keys", "identities", "requireLog"))
        name = parse_prefix(fields.get("match"), f"{where}.match")
        known = late if _has_late_alias(str(fields["match"])) else rules
        if name in known:
            raise InvalidPolicy(f"{where}.match {shown(name)} already has a rule; put both into one rule")
        known[name] = _rule(fields, f"{where}.", read, parse_pattern)
    left = {name: rule for name, rule in late.items() if not any(_speaks_of(one, name) for one in rules)}
    return left | rules


def _speaks_of(rule: str, name: str) -> bool:
    return is_within(name, rule) or is_within(whole_name(name), rule)


def _has_late_alias(match: str) -> bool:
    return match.partition("/")[0].lower().removesuffix(":443") == _LATE_ALIAS


def parse_prefix(value: object, where: str) -> str:
    """A registry, a folder in it or a repository, in the one spelling that repositories have too.

    In another a rule for a host would miss the host. Raises `InvalidPolicy`, which says where.
    """
    name = _text(value, where)
    if not re.fullmatch(grammar.REPOSITORIES, name):
        why = "does not begin with a registry, or has a tag; write for example registry.example/schedulers"
        raise InvalidPolicy(f"{where} {shown(name)} {why}")
    return canonical_prefix(name)


def _log_url(value: object) -> str:
    """Nothing after the colon is no wish for any log, but a line that somebody meant to finish."""
    url = _text(value, "rekorURL")
    if not re.fullmatch(_URL, url):
        raise InvalidPolicy(f"rekorURL {_said(url)} is not a URL; write for example {PUBLIC_LOG}")
    return url


def known_fields(value: object, where: str, known: Sequence[str]) -> Mapping[str, Any]:
    """A part of a document that has no other keys than these; `InvalidPolicy` says what is wrong with it."""
    if not isinstance(value, Mapping):
        raise InvalidPolicy(f"{where} is not a mapping; write {known[0]}: …")
    for key in value:
        if key not in known:
            raise InvalidPolicy(f"{where} has the unknown key {_said(key)}; {_hint(str(key)[:80], known)}")
    return value


def _hint(key: str, known: Sequence[str]) -> str:
    import difflib  # noqa: PLC0415 - a right policy needs none of it

    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"the known keys are {', '.join(known)}"


def _items(value: object, where: str, limit: int) -> Sequence[object]:
    if not isinstance(value, list):
        raise InvalidPolicy(f"{where} is not a list; begin each item with a dash")
    if len(value) > limit:
        raise InvalidPolicy(f"{where} has {len(value)} items; at most {limit} are accepted")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidPolicy(f"{where} is {_said(value)}; write a text that is not empty")
    if len(value) > MAX_TEXT:
        raise InvalidPolicy(f"{where} has {len(value)} characters; at most {MAX_TEXT} are accepted")
    if not is_whole(value):
        raise InvalidPolicy(
            f"{where} is {_said(value)}, with an incomplete Unicode character; write the whole character"
        )
    return value


def _said(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def is_within(repository: str, name: str) -> bool:
    """Whether the repository is that one, or lies in the registry or folder of that name."""
    return _fit(repository, name) > 0


def _fit(repository: str, name: str) -> int:
    """How much of the repository's name is meant by that name; 0: it is about others."""
    if name and f"{repository}/".startswith(f"{name}/"):
        return len(name)
    whole = whole_name(name)
    return len(whole) if repository == whole else 0


def _content(policy: TrustPolicy) -> object:
    """The whole policy as plain values."""
    return {
        "rule": _rule_content(policy.rule),
        "repositories": {name: _rule_content(rule) for name, rule in policy.repositories.items()},
        "log_url": policy.log_url,
        "trusted_root": policy.trusted_root.content if policy.trusted_root else None,
    }


def _rule_content(rule: Rule) -> object:
    return {
        "keys": [[key.path, key.content] for key in rule.keys],
        "identities": [_identity_content(one) for one in rule.identities],
        "require_log": rule.require_log,
    }


def _identity_content(identity: Identity) -> object:
    """Without a word about what is not asked, so that older policies keep their fingerprint."""
    wishes = ((_REPOSITORY, identity.repository), (_OWNER, identity.owner))
    asked = [[name, *_words(matcher)] for name, matcher in wishes if matcher is not None]
    return [_words(identity.issuer), _words(identity.subject), *asked]


def _words(matcher: Exactly | Pattern) -> list[str]:
    return ["exactly", matcher.text] if isinstance(matcher, Exactly) else ["pattern", matcher.expression]
