"""JSON that strangers wrote, read strictly: one meaning per document, and no more work than its size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NoReturn, TypeVar

import msgspec

T = TypeVar("T")

DEEPEST = 64
MOST_VALUES = 100_000
# possessive, and an unclosed string ends with the document: one pass, however many quotes are escaped
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


class InvalidDocument(ValueError):  # noqa: N818  # it says what the document is
    """A document that is not what it should be; the message says what is wrong with it."""


def decode(data: bytes, kind: type[T], *, what: str) -> T:
    """The document as a value of `kind`, whose unknown fields are ignored unless it forbids them.

    `null` counts as left out.

    Raises `InvalidDocument` for anything but UTF-8 JSON whose names are unique and which is neither deep nor
    full of tiny values, which would take many times its size in memory.
    """
    return shaped(read_object(data, what=what), kind, what=what)


def shaped(tree: dict[str, Any], kind: type[T], *, what: str) -> T:
    """As `decode`, of a document that was read already."""
    present = {name: value for name, value in tree.items() if value is not None}
    try:
        return msgspec.convert(present, kind, dec_hook=_construct)
    except msgspec.ValidationError as error:
        raise InvalidDocument(f"{what} is malformed: {error}") from error


def encode(value: object) -> bytes:
    """The value as compact JSON; equal values give equal bytes."""
    return msgspec.json.encode(value, enc_hook=_plain)


def read_object(data: bytes, *, what: str) -> dict[str, Any]:
    """The document's top object as plain values, under the same conditions as `decode`."""
    _refuse_explosive(data, what)
    try:
        text = data.decode()
        tree = json.loads(text, object_pairs_hook=_unique_names, parse_constant=_refuse_constant)
        if "\\u" in text:  # half a character, as in "\ud800", cannot be encoded
            json.dumps(tree, ensure_ascii=False).encode()
    except InvalidDocument as error:
        raise InvalidDocument(f"{what} {error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"{what} is not JSON: {error}") from error
    if not isinstance(tree, dict):
        raise InvalidDocument(f"{what} is JSON, but not an object")
    return tree


def _refuse_explosive(data: bytes, what: str) -> None:
    opened = data.count(b"[") + data.count(b"{")
    if data.count(b",") + opened > MOST_VALUES:
        raise InvalidDocument(f"{what} has more than {MOST_VALUES} values")
    if opened <= DEEPEST:
        return
    brackets = _BRACKET.finditer(_STRING.sub(b"", data))
    depths = accumulate(1 if bracket[0] in b"[{" else -1 for bracket in brackets)
    if any(depth > DEEPEST for depth in depths):
        raise InvalidDocument(f"{what} is nested more than {DEEPEST} levels deep")


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers differ in which of two equal names they believe: a check could see the other one."""
    named = dict(pairs)
    if len(named) != len(pairs):
        twice = repeated(name for name, _ in pairs)
        raise InvalidDocument(f"names {str(twice)[:64]!r} twice in one object")
    return named


def is_whole(text: str) -> bool:
    """Whether it can be written anywhere; half a character, such as U+D800, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def repeated(names: Iterable[str]) -> str | None:
    """The first name that was there before; None: each is there once."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidDocument(f"has the value {name}, which is not JSON")


def _plain(value: object) -> str:
    """Text of a kind of its own, as text."""
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")


def _construct(kind: type, value: object) -> object:
    """Types that are made from text and refuse what does not fit them."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {type(value).__name__}")  # noqa: TRY004  # msgspec adds the path
    return kind(value)
