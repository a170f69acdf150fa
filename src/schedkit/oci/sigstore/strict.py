"""Strict reading of what strangers wrote: JSON, base64, numbers. Everything wrong is refused at step 4."""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.utils import CryptographyDeprecationWarning

from schedkit.model.images import strictjson
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.model.trust.steps import Refusal, Step

T = TypeVar("T")

MAX_DOCUMENT: Final = 1 << 20
UNREADABLE: Final = (
    ValueError,
    TypeError,
    OverflowError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What the library raises for certificates, keys and timestamps that are none."""
_MAX_NUMBER: Final = (1 << 63) - 1
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def malformed(why: str) -> Refusal:
    """The refusal of evidence that cannot be read."""
    return Refusal(Step.FORMAT, why)


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing that strangers wrote into certificates print warnings of the library on our terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        yield


def json_document(data: bytes, shape: type[T], what: str, *, limit: int = MAX_DOCUMENT) -> T:
    """The document as `shape`; fields that the shape does not have are ignored."""
    if len(data) > limit:
        raise malformed(f"{what} has {len(data)} bytes; at most {limit} are read")
    try:
        return strictjson.decode(data, shape, what=what)
    except InvalidDocument as error:
        raise malformed(str(error)) from error


def json_part(part: object, shape: type[T], what: str) -> T:
    """A part of a document that was read already, as `shape`."""
    try:
        return msgspec.convert(part, shape)
    except msgspec.ValidationError as error:
        raise malformed(f"{what} is malformed: {error}") from error


def base64_bytes(text: str, what: str, *, limit: int = MAX_DOCUMENT) -> bytes:
    """The bytes behind standard base64, in the one way they can be written."""
    if len(text) > limit * 4 // 3 + 4:
        raise malformed(f"{what} has {len(text)} characters of base64; at most {limit} bytes are read")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise malformed(f"{what} is not base64: {error}") from error
    if base64.b64encode(data).decode() != text:
        raise malformed(f"{what} is not base64 in its standard form")
    return data


def typed_base64_bytes(text: str, what: str, *, limit: int) -> bytes:
    """The bytes behind base64 from somebody's file, in each way that Go's decoder reads, as cosign does.

    Line ends are skipped wherever they are, and bits that no byte has may be anything; all else is strict.
    """
    plain = text.replace("\r", "").replace("\n", "")
    if len(plain) > limit * 4 // 3 + 4:
        raise malformed(f"{what} has {len(plain)} characters of base64; at most {limit} bytes are read")
    if not _BASE64.fullmatch(plain):
        raise malformed(f"{what} is not base64 with padding")
    return base64.b64decode(plain)


def hex_bytes(text: str, what: str) -> bytes:
    """The bytes behind lower-case hexadecimal digits."""
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise malformed(f"{what} is not hexadecimal: {error}") from error
    if data.hex() != text:
        raise malformed(f"{what} is not hexadecimal in lower case")
    return data


def whole_number(text: str, what: str) -> int:
    """A number of up to 63 bits, in decimal digits."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _MAX_NUMBER:
        raise malformed(f"{what} is {text[:32]!r}, not a whole number of up to 63 bits")
    if str(int(text)) != text:
        raise malformed(f"{what} is {text!r}, with leading zeros")
    return int(text)
