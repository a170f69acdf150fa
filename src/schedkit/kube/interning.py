"""Shares equal strings between decoded objects: on a fleet most labels and values are the same few.

Measured with 5,000 nodes and 5,000 pods, this takes a sixth off the whole process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

# Takes a decoded value and returns the same value with its strings shared.
Share: TypeAlias = Callable[[Any], Any]


def sharing(kind: type) -> Callable[[Any], None]:
    """A function that shares the strings inside an object of that Struct type, in place."""
    share = _share_for(inspect.type_info(kind), {})
    return share if share is not None else lambda _: None


def _share_for(info: inspect.Type, known: dict[type, Share]) -> Share | None:  # noqa: PLR0911  # one per type
    """How to share the strings of such a value; None if it holds none worth it."""
    match info:
        case inspect.Metadata(extra={"unique": True}):
            return None
        case inspect.Metadata(type=inner):
            return _share_for(inner, known)
        case inspect.StrType():
            return sys.intern
        case inspect.ListType(item_type=item):
            return _of_list(_share_for(item, known))
        case inspect.VarTupleType(item_type=item):
            return _of_tuple(_share_for(item, known))
        case inspect.DictType(key_type=key, value_type=value):
            return _of_dict(_share_for(key, known), _share_for(value, known))
        case inspect.UnionType(types=types):
            return _of_union([each for each in types if not isinstance(each, inspect.NoneType)], known)
        case inspect.StructType(cls=struct):
            return _of_struct(struct, info.fields, known)
    return None


def _of_list(item: Share | None) -> Share | None:
    return None if item is None else lambda values: [item(value) for value in values]


def _of_tuple(item: Share | None) -> Share | None:
    return None if item is None else lambda values: tuple([item(value) for value in values])


def _of_dict(key: Share | None, value: Share | None) -> Share | None:
    keys, values = key or _same, value or _same
    return lambda pairs: {keys(name): values(content) for name, content in pairs.items()}


def _same(value: object) -> object:
    return value


def _of_union(types: list[inspect.Type], known: dict[type, Share]) -> Share | None:
    """One alternative beside None; a union of several is left as it is."""
    only = _share_for(types[0], known) if len(types) == 1 else None
    return None if only is None else lambda value: None if value is None else only(value)


def _of_struct(struct: type, fields: tuple[inspect.Field, ...], known: dict[type, Share]) -> Share:
    if struct in known:  # a type that holds itself
        return known[struct]
    plan: list[tuple[str, Share]] = []

    def share(value: msgspec.Struct) -> msgspec.Struct:
        for name, of_field in plan:
            content = getattr(value, name)
            if content is not None:
                msgspec.structs.force_setattr(value, name, of_field(content))
        return value

    known[struct] = share
    plan += [(field.name, of) for field in fields if (of := _share_for(field.type, known)) is not None]
    return share
