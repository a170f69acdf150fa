"""Strict reading of what strangers wrote: JSON, base64, numbers. Everything wrong is refused at step 4.

A JSON object that names a key twice is refused: two readers could take different values, and one of them
would verify what the other does not run.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final, Never, TypeVar

import msgspec

from schedkit.model.trust import Refusal, Step

T = TypeVar("T")

MAX_DOCUMENT: Final = 1 << 20
_MAX_NUMBER: Final = (1 << 63) - 1


def malformed(why: str) -> Refusal:
    """The refusal of evidence that cannot be read."""
    return Refusal(Step.FORMAT, why)


def json_document(data: bytes, shape: type[T], what: str, *, limit: int = MAX_DOCUMENT) -> T:
    """The document as `shape`; fields that the shape does not have are ignored."""
    if len(data) > limit:
        raise malformed(f"{what} has {len(data)} bytes; at most {limit} are read")
    try:
        json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
        return msgspec.json.decode(data, type=shape)
    except (ValueError, RecursionError) as error:  # those of json, msgspec and decode are all ValueErrors
        raise malformed(f"{what} is not what it should be: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"the key {twice!r} stands there twice")
    return found


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


def base64_bytes(text: str, what: str, *, limit: int = MAX_DOCUMENT) -> bytes:
    """The bytes behind standard base64, in the one way they can be written."""
    if len(text) > limit * 4 // 3 + 4:
        raise malformed(f"{what} has {len(text)} characters of base64; at most {limit} bytes are read")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise malformed(f"{what} is not base64: {error}") from error
    if base64.b64encode(data).decode() != text:
        raise malformed(f"{what} is not base64 as encoders write it")
    return data


def hex_bytes(text: str, what: str) -> bytes:
    """The bytes behind lower-case hexadecimal digits."""
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise malformed(f"{what} is not hexadecimal: {error}") from error
    if data.hex() != text:
        raise malformed(f"{what} is not hexadecimal as it is written in lower case")
    return data


def whole_number(text: str, what: str) -> int:
    """A number of up to 63 bits, in decimal digits."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _MAX_NUMBER:
        raise malformed(f"{what} is {text[:32]!r}, not a whole number of up to 63 bits")
    if str(int(text)) != text:
        raise malformed(f"{what} is {text!r}, with zeros in front")
    return int(text)
