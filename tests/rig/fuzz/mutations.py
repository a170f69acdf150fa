"""Small changes of genuine inputs, made where their structure is: in JSON, base64, PEM, DER and text.

All choices come from one `Random`, so that the same seed and the same input give the same change.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from rig.fuzz.der import Node, parse

NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 255, 65536, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400),
    *(0.5, -0.0, 1e308, float("inf"), float("nan")),
)
TEXTS = (
    *(
        "",
        " ",
        "\0",
        "\n",
        "0",
        "-1",
        "00",
        "1e5",
        "²",
        "٣",
        "null",
        "true",
        "é",
        "\ud800",
        "\u202e",
        "\x1b[2J",
    ),
    *(
        "a" * 300,
        "a" * 5000,
        "/" * 2100,
        "../../etc/passwd",
        "https://",
        "http://[::1",
        "://",
        "@",
        ":",
        "=",
        "%",
    ),
    *(
        "sha256:" + "0" * 64,
        "sha256:" + "F" * 64,
        "sha512:" + "0" * 128,
        "SHA2_512",
        "sha1",
        "application/json",
    ),
)
_CHARACTERS = tuple(map(chr, (9, 32, 65, 127, 160, 0x2014, 0x1F600)))
_OTHER_KINDS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": ""}, "x", 7, -7, 1.5)
_TAGS = (0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0C, 0x13, 0x17, 0x18, 0x30, 0x31, 0xA0, 0xA3, 0x1F, 0xFF)
_CONTENTS = (b"", b"\0", b"\xff", b"\x80", b"\0" * 40, b"\xff" * 300, b"\x7f" + b"\xff" * 20)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_HEX = re.compile(r"(sha256:)?[0-9a-f]{16,}")
_PEM = re.compile(r"(-----BEGIN [A-Z ]+-----\n)([A-Za-z0-9+/=\n]+)(-----END [A-Z ]+-----)")


class _Twice(dict[str, Any]):
    """A mapping that is written with one of its names twice."""

    again: tuple[str, Any]

    def items(self) -> Any:
        return [*super().items(), self.again]


class Mutator:
    """Changes what it is given, a little each time."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def document(self, data: bytes) -> bytes:
        """A JSON document: its values mostly, sometimes its bytes."""
        try:
            tree = json.loads(data)
        except (ValueError, RecursionError):  # changed before
            return self.raw(data)
        if self.random.random() < 0.1:
            return self.raw(data)
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            tree = self.value(tree)
        return self.written(tree)

    def written(self, tree: object) -> bytes:
        """The tree as JSON in one of the ways that there are to write it."""
        try:
            plain = json.dumps(tree)
        except RecursionError:  # nested deep, and then again
            return b'{"a":' * 5000
        if self.random.random() < 0.9:
            return plain.encode()
        text = json.dumps(tree, ensure_ascii=False, indent=self.random.choice((None, 1)))
        data = text.encode(self.random.choice(("utf-8", "utf-8", "utf-16")), "surrogatepass")
        return (
            self.random.choice((b"", b"", b"\xef\xbb\xbf", b" \n"))
            + data
            + self.random.choice((b"", b"\n", b"x"))
        )

    def value(self, value: Any, depth: int = 0) -> Any:
        """The value with something in it changed; a container is changed in place."""
        goes_on = self.random.random() < 0.92 if depth else True
        if isinstance(value, dict) and value and goes_on:
            key = self.random.choice(list(value))
            value[key] = self.value(value[key], depth + 1)
            return value
        if isinstance(value, list) and value and goes_on:
            at = self.random.randrange(len(value))
            value[at] = self.value(value[at], depth + 1)
            return value
        return self._changed(value)

    def _changed(self, value: Any) -> Any:
        if self.random.random() < 0.15:
            return self._other((*_OTHER_KINDS, *NUMBERS))
        match value:
            case dict():
                return self._mapping(value)
            case list():
                return self._list(value)
            case str():
                return self.text(value)
            case bool() | None:
                return self._other(_OTHER_KINDS)
            case _:
                return self.random.choice((value + 1, value - 1, -value, str(value), *NUMBERS))

    def _other(self, choices: Sequence[Any]) -> Any:
        """A copy: what is put into a tree may be changed there, and would be another one next time."""
        return copy.deepcopy(self.random.choice(choices))

    def _mapping(self, value: dict[str, Any]) -> Any:
        keys = list(value) or [""]
        key = self.random.choice(keys)
        match self.random.randrange(6):
            case 0:
                return {name: one for name, one in value.items() if name != key}
            case 1:
                return {(self.text(name) if name == key else name): one for name, one in value.items()}
            case 2:
                twice = _Twice(value or {"": 0})
                twice.again = (key, self.random.choice(TEXTS))
                return twice
            case 3:
                return value | {self.random.choice(TEXTS): self._other(_OTHER_KINDS)}
            case 4:
                return value | {key.swapcase(): value.get(key)}
            case _:
                return self._nested(value)

    def _list(self, value: list[Any]) -> Any:
        match self.random.randrange(5):
            case 0:
                return value[: self.random.randrange(len(value) + 1)]
            case 1:
                return [*value, *value]
            case 2:
                return (value or [0]) * self.random.choice((9, 65, 100, 1000))
            case 3:
                return [*value, self._other(_OTHER_KINDS)]
            case _:
                return self._nested(value)

    def _nested(self, value: Any) -> Any:
        for _ in range(self.random.choice((1, 3, 60, 63, 64, 65, 500))):
            value = [value] if self.random.random() < 0.5 else {"a": value}
        return value

    def text(self, text: str) -> str:
        """The text, changed inside of whatever it encodes."""
        if text[:1] == "{" and self.random.random() < 0.9:
            return self._document_text(text)
        if (pem := _PEM.search(text)) and self.random.random() < 0.9:
            return self._pem_text(text, pem)
        if _BASE64.fullmatch(text) and len(text) % 4 == 0 and self.random.random() < 0.8:
            return self._base64_text(text)
        if _HEX.fullmatch(text) and self.random.random() < 0.5:
            return self.random.choice(
                (text.upper(), text[:-1], text + "0", text[::-1], text.replace("a", "g"))
            )
        if text.isdecimal() and self.random.random() < 0.7:
            number = int(text[:500])
            return str(self.random.choice((number + 1, number - 1, number * 2, f"0{number}", *NUMBERS)))
        return self.plain(text)

    def _document_text(self, text: str) -> str:
        return self.document(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def _pem_text(self, text: str, found: re.Match[str]) -> str:
        try:
            body = base64.b64decode(found[2])
        except ValueError:
            return self.plain(text)
        changed = base64.encodebytes(self.data(body)).decode()
        whole = f"{found[1]}{changed}{found[3]}"
        return text.replace(found[0], whole + "\n" + whole if self.random.random() < 0.1 else whole)

    def _base64_text(self, text: str) -> str:
        try:
            inner = base64.b64decode(text, validate=True)
        except ValueError:
            return self.plain(text)
        changed = base64.b64encode(self.data(inner)).decode()
        loose = self.random.choice(
            (changed.rstrip("="), f"{changed}=", changed.replace("+", "-"), f"{changed}\n")
        )
        return loose if self.random.random() < 0.05 else changed

    def plain(self, text: str) -> str:
        """Text that encodes nothing."""
        at = self.random.randrange(len(text) + 1)
        odd = self.random.choice((*TEXTS, *_CHARACTERS))
        changes: tuple[Callable[[], str], ...] = (
            lambda: odd,
            lambda: text[:at],
            lambda: text[:at] + text[at + self.random.choice((1, 1, 2, 8)) :],
            lambda: text[:at] + odd + text[at:],
            lambda: text[:at] + odd + text[at + 1 :],
            text.swapcase,
            lambda: text[:at] + text[at : at + 40] * self.random.choice((2, 2, 50)) + text[at + 40 :],
            lambda: self._lines(text),
        )
        return self.random.choice(changes)()

    def _lines(self, text: str) -> str:
        lines = text.split("\n")
        at = self.random.randrange(len(lines))
        changes: tuple[Callable[[], list[str]], ...] = (
            lambda: [*lines[:at], *lines[at + 1 :]],
            lambda: [*lines[: at + 1], *lines[at:]],
            lambda: [*lines[:at], "", *lines[at:]],
            lambda: lines[::-1],
        )
        return "\n".join(self.random.choice(changes)())

    def data(self, data: bytes) -> bytes:
        """Bytes: as DER, as a document, or as bytes."""
        if data[:1] == b"\x30" and self.random.random() < 0.9:
            return self.der(data)
        if data[:1] == b"{":
            return self.document(data)
        if data[:10] == b"-----BEGIN":
            return self.text(data.decode("utf-8", "replace")).encode("utf-8", "surrogatepass")
        return self.raw(data)

    def raw(self, data: bytes) -> bytes:
        """Bytes that mean nothing here."""
        at = self.random.randrange(len(data) + 1)
        match self.random.randrange(6):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + data[at + self.random.choice((1, 4, 32)) :]
            case 2:
                return data[:at] + self.random.choice(_CONTENTS) + data[at:]
            case 3:
                return data[:at] + data[at : at + 64] * 3 + data[at + 64 :]
            case 4:
                return data[:at] + self.random.randbytes(4) + data[at + 4 :]
            case _:
                return (
                    data[:at]
                    + bytes([(data[at] if at < len(data) else 0) ^ (1 << self.random.randrange(8))])
                    + data[at + 1 :]
                )

    def lines(self, data: bytes) -> bytes:
        """Lines that end as those of HTTP do: one of them lost, twice, elsewhere or changed; or any bytes."""
        parts = data.split(b"\r\n")
        at, to = (self.random.randrange(len(parts)) for _ in range(2))
        match self.random.randrange(5):
            case 0:
                del parts[at]
            case 1:
                parts.insert(to, parts[at])
            case 2:
                parts[at] = self.plain(parts[at].decode("latin-1")).encode("latin-1", "replace")
            case 3:
                return self.random.choice((b"\n", b"\r", b"\r\n\r\n")).join(parts)
            case _:
                return self.raw(data)
        return b"\r\n".join(parts)

    def der(self, data: bytes) -> bytes:
        """One value of a DER document changed; the lengths around it fit again, or do not."""
        nodes = parse(data)
        if not nodes:
            return self.raw(data)
        self._change_node(nodes)
        return b"".join(node.encoded() for node in nodes)

    def _change_node(self, siblings: list[Node]) -> None:
        while True:
            at = self.random.randrange(len(siblings))
            node = siblings[at]
            if not node.children or self.random.random() < 0.08:
                break
            siblings = node.children
        match self.random.randrange(8):
            case 0:
                node.tag = self.random.choice((*_TAGS, node.tag ^ 0x20, node.tag ^ 0x80))
            case 1:
                node.content, node.children = self.random.choice(_CONTENTS), []
            case 2:
                node.content, node.children = self.raw(node.content), []
            case 3:
                siblings.insert(at, node)
            case 4:
                node.lie = self.random.choice((-1, 1, 2, 100, 2**16, 2**31, 2**40))
            case 5 if len(siblings) > 1:
                del siblings[at]
            case 6:
                siblings.reverse()
            case _:
                node.content, node.children = self.data(node.content) if node.content else b"\0", []
