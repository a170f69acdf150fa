"""DER as a tree that can be changed and written again, with lengths that fit, or lie."""

from __future__ import annotations

from dataclasses import dataclass, field

_CONSTRUCTED = 0x20
_OCTET_STRING = 0x04
_DEEPEST = 24


@dataclass
class Node:
    """One value: its tag, and its bytes or the values in it."""

    tag: int
    content: bytes = b""
    children: list[Node] = field(default_factory=list)
    lie: int = 0
    """How far the written length is from the right one."""

    def encoded(self) -> bytes:
        content = b"".join(child.encoded() for child in self.children) or self.content
        return bytes([self.tag]) + _length(max(0, len(content) + self.lie)) + content


def parse(data: bytes, depth: int = 0) -> list[Node] | None:
    """The values that the bytes consist of; None if they are not DER from end to end."""
    found, at = [], 0
    while at < len(data):
        header = _header(data, at)
        if header is None:
            return None
        begins, ends = header
        found.append(_node(data[at], data[begins:ends], depth))
        at = ends
    return found


def _node(tag: int, content: bytes, depth: int) -> Node:
    """Extensions keep their values in octet strings: those are looked into as well."""
    may_hold = tag & _CONSTRUCTED or (tag == _OCTET_STRING and content[:1] in (b"\x30", b"\x04"))
    children = parse(content, depth + 1) if may_hold and depth < _DEEPEST else None
    return Node(tag, content, children or [])


def _header(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the content of the value begins and ends."""
    if at + 2 > len(data):
        return None
    length, begins = data[at + 1], at + 2
    if length & 0x80:
        octets = length & 0x7F
        length, begins = int.from_bytes(data[begins : begins + octets], "big"), begins + octets
    return (begins, begins + length) if begins + length <= len(data) else None


def _length(length: int) -> bytes:
    if length < 0x80:
        return bytes([length])
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(octets)]) + octets
