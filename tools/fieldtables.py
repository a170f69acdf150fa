"""Tables of an API type's fields and of its conditions' reasons, in Markdown: the users' reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import StrEnum

import msgspec
from crdschema import Schema, struct_schema

_PARTS = ("spec", "status")


def tables(kind: type[msgspec.Struct], *, of: str = "") -> str:
    """One table for each object inside spec and status, in the order in which they appear."""
    whole = struct_schema(kind)["properties"]
    parts = (each for name in _PARTS if name in whole for each in _objects(name, whole[name]))
    return "\n" + "".join(_table(path, part, of) for path, part in parts)


def reasons(kind: type[StrEnum]) -> str:
    """One row for each member, with the comment beside it."""
    rows = re.findall(r'= "(\w+)"  # (.+)', inspect.getsource(kind))
    if [name for name, _ in rows] != [member.value for member in kind]:
        raise ValueError(f"each member of {kind.__name__} needs a comment beside it that says what it means")
    return (
        "\n| reason | meaning |\n|---|---|\n"
        + "".join(f"| `{name}` | {text} |\n" for name, text in rows)
        + "\n"
    )


def _objects(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """That object and those inside it, each with its path."""
    if "properties" in schema:
        yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from _objects(f"{path}.{name}", part)
    if "items" in schema:
        yield from _objects(f"{path}[]", schema["items"])


def _table(path: str, schema: Schema, of: str) -> str:
    head = f"### `{path}`{of}\n\n{schema['description']}\n\n| field | type | description |\n|---|---|---|\n"
    required = schema.get("required", [])
    rows = (_row(name, part, required=name in required) for name, part in schema["properties"].items())
    return head + "".join(rows) + _rules(schema) + "\n"


def _row(name: str, part: Schema, *, required: bool) -> str:
    notes = ["**Required.**"] if required else []
    if "default" in part:
        notes.append(
            f"Default `{str(part['default']).lower() if part['type'] == 'boolean' else part['default']}`."
        )
    words = " ".join([part.get("description", ""), *notes]).replace("|", r"\|")
    return f"| `{name}` | {_kind(part)} | {words} |\n"


def _kind(part: Schema) -> str:
    """A type in a few words."""
    if "x-kubernetes-int-or-string" in part:
        return "integer or string"
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    if "items" in part:
        return f"list of {_kind(part['items'])}"
    if "additionalProperties" in part:
        return f"map to {_kind(part['additionalProperties'])}"
    return str(part.get("format") if part.get("format") == "date-time" else part["type"])


def _rules(schema: Schema) -> str:
    """What is refused, in the words of the API server."""
    messages = [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]
    return "".join(f"\n* {message}" for message in messages) + ("\n" if messages else "")
