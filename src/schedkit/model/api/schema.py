"""How the API types declare their part of the CRD.

A type's fields become properties, its docstrings descriptions, and `schema(...)` beside a field's type
the rest: limits, and rules in CEL. Decoding an object checks none of these rules: an object
may be older than a rule, and one bad object must not end a watch over all objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

# A string that hardly any other object has: caches need not look for another to share it with.
Unique: TypeAlias = Annotated[str, msgspec.Meta(extra={"unique": True})]

# words that the API spells in capitals
_ACRONYMS = {"pid": "PID", "id": "ID", "uid": "UID"}


def api_name(field: str) -> str:
    """A field's name as the API spells it: `host_pid` is `hostPID`."""
    first, *others = field.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in others)


class ApiType(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, rename=api_name):
    """What the API server stores, or a part of it. Fields it leaves out have their default.

    A field that has its default is not written. So the default of a required field must be a value that the
    field cannot have, or its type must say `omit_defaults=False`.
    """


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition in CEL, and what to tell the user who breaks it."""

    holds: str
    message: str
    # CEL for a message that fits the mistake; `message` stays for when it cannot be computed
    explain: str | None = None
    # which field is wrong; None: the one that the rule is about
    field_path: str | None = None

    def as_schema(self) -> dict[str, str]:
        """As a CRD spells it."""
        optional = {"messageExpression": self.explain, "fieldPath": self.field_path}
        present = {word: value for word, value in optional.items() if value is not None}
        return {"rule": self.holds, "message": self.message, **present}


# the object around a field lists it as required; an object's own `required` is a list of names
REQUIRED = "x-required"


def schema(*rules: Rule, **keywords: object) -> msgspec.Meta:
    """What the CRD says about a value, beside its type."""
    validations = {"x-kubernetes-validations": [rule.as_schema() for rule in rules]} if rules else {}
    return msgspec.Meta(extra_json_schema={**_spelled(keywords), **validations})


def _spelled(keywords: dict[str, object]) -> dict[str, object]:
    """Extensions with their full names; every other keyword is spelled as JSON schema does."""
    extensions = {
        "required": REQUIRED,
        "list_type": "x-kubernetes-list-type",
        "list_map_keys": "x-kubernetes-list-map-keys",
        "int_or_string": "x-kubernetes-int-or-string",
        "map_type": "x-kubernetes-map-type",
    }
    return {extensions.get(word, word): value for word, value in keywords.items()}
