"""The structural schema of an API type: what a CustomResourceDefinition says about it."""

from __future__ import annotations

import ast
import enum
import inspect as source
import textwrap
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from schedkit.model.api.schema import REQUIRED, Rule

Schema: TypeAlias = dict[str, Any]

_INT_OR_STRING = "x-kubernetes-int-or-string"


def root_schema(kind: type[msgspec.Struct], rules: Sequence[Rule]) -> Schema:
    """The schema of a whole object; what the API server knows itself is only named."""
    whole = struct_schema(kind)
    known = {
        "apiVersion": {"type": "string", "description": "Version of the schema of this object."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    whole["properties"] = known | {
        name: part for name, part in whole["properties"].items() if name not in known
    }
    return whole | ({"x-kubernetes-validations": [rule.as_schema() for rule in rules]} if rules else {})


def struct_schema(kind: type[msgspec.Struct]) -> Schema:
    """The schema of a type: its docstring, its fields, and which of them must be there."""
    described = {"type": "object", "description": " ".join((kind.__doc__ or "").split())}
    properties, required = {}, []
    for field in fields_of(kind):
        properties[field.encode_name] = part = field_schema(field, kind)
        if part.pop(REQUIRED, False):
            required.append(field.encode_name)
    return described | ({"required": required} if required else {}) | {"properties": properties}


def fields_of(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    """The fields, with their types resolved."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - that is what it answers for a Struct
    return info.fields


def field_schema(field: inspect.Field, owner: type[msgspec.Struct]) -> Schema:
    """The schema of one field; the docstring below it describes it, rather than its type's."""
    schema = type_schema(field.type)
    described = docstrings(owner).get(field.name)
    if described:
        schema = {"type": None, "description": None} | schema | {"description": described}
    return {word: value for word, value in schema.items() if value is not None}


def type_schema(info: inspect.Type) -> Schema:
    """The schema of a value, still with the mark of a field that must be there."""
    match info:
        case inspect.Metadata(type=inner, extra_json_schema=extra):
            return type_schema(inner) | (extra or {})
        case inspect.UnionType():
            return _union(info)
        case inspect.StructType(cls=kind):
            return struct_schema(kind)
        case inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": type_schema(item)}
        case inspect.DictType(value_type=value):
            return {"type": "object", "additionalProperties": type_schema(value)}
    return _scalar(info)


def _union(info: inspect.UnionType) -> Schema:
    real = [each for each in info.types if not isinstance(each, inspect.NoneType)]
    if len(real) == 1:
        return type_schema(real[0])
    # the only union of real types in the API; the extension takes the place of a type
    return {_INT_OR_STRING: True}


def _values(kind: type[enum.Enum]) -> list[str]:
    return [member.value for member in kind]


def _scalar(info: inspect.Type) -> Schema:
    match info:
        case inspect.StrType():
            return {"type": "string"}
        case inspect.EnumType(cls=kind):
            return {"type": "string", "enum": _values(kind)}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer", "format": "int64"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
    raise TypeError(f"a CRD has no schema for {info}: give crdschema.py one, or use another type")


@cache
def docstrings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The string literals below a class's fields, by field."""
    tree = ast.parse(textwrap.dedent(source.getsource(kind))).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = " ".join(words.split())
    return found
