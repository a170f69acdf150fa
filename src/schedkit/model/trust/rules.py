"""What the administrator of a cluster allows: one document with a mode, a trust policy and two lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from schedkit.model.images import grammar
from schedkit.model.images.references import Repository, shown
from schedkit.model.trust.policy import (
    MAX_TEXT,
    InvalidPolicy,
    ParsePattern,
    Read,
    TrustPolicy,
    default_policy,
    is_within,
    known_fields,
    parse_policy,
    parse_prefix,
)

_MAX_ITEMS: Final = 1024
_LONGEST_NAMESPACE: Final = 63
_KNOWN: Final = ("mode", "policy", "allowedImages", "allowedNamespaces", "priorityCeiling")

RULES_FILE: Final = "rules.yaml"
OLD_RULES_FILE: Final = "trust.yaml"  # read while the other one is absent
# how people find them
PLACES: Final = MappingProxyType(
    {
        RULES_FILE: f"{RULES_FILE} of ConfigMap sked-rules",
        OLD_RULES_FILE: f"{OLD_RULES_FILE} of ConfigMap sked-trust",
    }
)


class TrustMode(StrEnum):
    """What becomes of an image that nobody trusted has signed; the later, the stricter."""

    OFF = "off"  # nobody looks, and nothing outside is asked
    WARN = "warn"  # it runs, and the resource says so
    ENFORCE = "enforce"  # it does not run, and what does is bound to the digest that was verified


_STRICTNESS: Final = {mode: rank for rank, mode in enumerate(TrustMode)}


@dataclass(frozen=True, slots=True)
class Rules:
    """What may run. Without a list, everything it could name is allowed; an empty one allows nothing."""

    mode: TrustMode = TrustMode.OFF
    policy: TrustPolicy = field(default_factory=TrustPolicy)
    fingerprint: str = ""  # of the policy
    allowed_images: tuple[str, ...] | None = None
    allowed_namespaces: tuple[str, ...] | None = None
    priority_ceiling: int | None = None  # accepted, and used by nobody yet
    place: str = ""  # where they are written; empty: nowhere, they are built in
    has_mode: bool = True  # False: nobody wrote one, and the mode is the floor
    # what the policy was read from, so that another process can read the same
    document: object = None  # None: the policy is the one that is built in
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))

    def is_stricter_than(self, other: Rules) -> bool:
        """Whether its mode is; lists and policies cannot be told apart so."""
        return _STRICTNESS[self.mode] > _STRICTNESS[other.mode]

    def is_looser_than(self, before: Rules) -> bool:
        """Whether more may run by these, as far as can be told: where nothing is written, lists are gone."""
        return before.is_stricter_than(self) or bool(before.place and not self.place)

    def allows_image(self, repository: Repository) -> bool:
        """Whether images of that repository may run."""
        names = self.allowed_images
        return names is None or any(is_within(str(repository), name) for name in names)

    def allows_namespace(self, namespace: str) -> bool:
        """Whether SchedExts of that namespace may run anything."""
        return self.allowed_namespaces is None or namespace in self.allowed_namespaces


def built_in_rules(
    floor: TrustMode, parse_pattern: ParsePattern, default: TrustMode = TrustMode.OFF
) -> Rules:
    """Where the administrator wrote none: the only ones for which the default counts."""
    policy = default_policy(parse_pattern)
    return Rules(mode=_stricter(floor, default), policy=policy, fingerprint=policy.fingerprint)


def unused_settings_remark(rules: Rules) -> str:
    """What is to be said about settings that are accepted and do nothing; empty: there are none."""
    return "" if rules.priority_ceiling is None else f"priorityCeiling in {rules.place} does nothing yet"


def missing_mode_remark(rules: Rules, built_in: Rules) -> str:
    """What is to be said where rules without a mode loosen what counts without rules; empty: nothing."""
    if rules.has_mode or not built_in.is_stricter_than(rules):
        return ""
    counts = f"{rules.mode} applies; {built_in.mode} would apply only if there were no rules"
    return f"{rules.place} has no mode: {counts}; write the mode you want"


def parse_rules(document: object, read: Read, floor: TrustMode, parse_pattern: ParsePattern) -> Rules:
    """The rules that a decoded file describes; `read` gets the files that its policy names.

    No mode below the floor comes out of it. Raises `InvalidPolicy`, which says where in the document, and
    lets errors of `read` through.
    """
    fields = _fields(document)
    files: dict[str, bytes] = {}

    def remember(name: str) -> bytes:
        files[name] = read(name)
        return files[name]

    given = fields.get("policy")
    policy = default_policy(parse_pattern) if given is None else parse_policy(given, remember, parse_pattern)
    return Rules(
        mode=_stricter(floor, _mode(fields.get("mode", floor))),
        policy=policy,
        fingerprint=policy.fingerprint,
        allowed_images=_images(fields),
        allowed_namespaces=_namespaces(fields),
        priority_ceiling=_ceiling(fields.get("priorityCeiling")),
        has_mode="mode" in fields,
        document=given,
        files=MappingProxyType(files),
    )


def _fields(document: object) -> Mapping[str, Any]:
    found = known_fields({} if document is None else document, "the document", _KNOWN)
    if "policy" in found and found["policy"] is None:
        raise InvalidPolicy("policy is empty; write whom to trust, {} to trust nobody, or leave out the key")
    return found


def _stricter(one: TrustMode, other: TrustMode) -> TrustMode:
    return max(one, other, key=_STRICTNESS.__getitem__)


def _mode(value: object) -> TrustMode:
    """YAML takes the word `off` for a false, unless it is quoted."""
    try:
        return TrustMode.OFF if value is False else TrustMode(str(value))
    except ValueError as error:
        raise InvalidPolicy(f"mode is {value!r}; write off, warn or enforce") from error


def _images(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    names = _names(fields, "allowedImages")
    if names is None:
        return None
    return tuple(parse_prefix(name, f"allowedImages[{at}]") for at, name in enumerate(names))


def _namespaces(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What can be none would silently allow nobody."""
    names = _names(fields, "allowedNamespaces")
    for at, name in enumerate(names or ()):
        if len(name) > _LONGEST_NAMESPACE or not re.fullmatch(grammar.NAMESPACE, name):
            why = "cannot be a namespace; write whole names, or leave out the list to allow every namespace"
            raise InvalidPolicy(f"allowedNamespaces[{at}] {shown(name)} {why}")
    return names


def _names(fields: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    if key not in fields:
        return None
    names = fields[key]
    if not isinstance(names, list) or len(names) > _MAX_ITEMS:
        raise InvalidPolicy(f"{key} is not a list of at most {_MAX_ITEMS} names; begin each name with a dash")
    for at, name in enumerate(names):
        if not isinstance(name, str) or not 0 < len(name) <= MAX_TEXT:
            raise InvalidPolicy(f"{key}[{at}] is {name!r}; write a name")
    return tuple(names)


def _ceiling(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InvalidPolicy(f"priorityCeiling is {value!r}; write a whole number")
