"""What a program's file says about itself: what it runs on, and what it cannot start without.

Only 64-bit ELF, the format of every program that a sched_ext kernel can start.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from schedkit.model.images.references import Platform

_MAGIC: Final = b"\x7fELF"
_64_BIT: Final = 2
_ORDERS: Final = {1: "<", 2: ">"}
# by the number in the file and the order of its bytes, as Go and image indexes call them
_ARCHITECTURES: Final = {
    (62, "<"): "amd64",
    (183, "<"): "arm64",
    (243, "<"): "riscv64",
    (21, "<"): "ppc64le",
    (22, ">"): "s390x",
}
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_END, _NEEDED, _STRINGS = 0, 1, 5
_MOST_ENTRIES: Final = 4096


class InvalidProgram(ValueError):  # noqa: N818 - it names what the file is
    """A file that is no program we can package; the message says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, or a library."""

    platform: Platform
    interpreter: str | None  # what the kernel starts in its place; None: it is linked statically
    libraries: tuple[str, ...]  # what it needs, by the names that the interpreter looks for


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def parse_program(data: bytes) -> Program:
    """Read the file's headers; raises `InvalidProgram` for whatever is no 64-bit ELF program."""
    try:
        return _parse(data)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise InvalidProgram("its headers point outside the file") from error


def _parse(data: bytes) -> Program:
    if data[:4] != _MAGIC:
        raise InvalidProgram("it is not an ELF program; a script needs an image that has its interpreter")
    if data[4] != _64_BIT or data[5] not in _ORDERS:
        raise InvalidProgram("it is not a 64-bit program")
    order = _ORDERS[data[5]]
    segments = list(_segments(data, order))
    interpreters = [_text(data, each.offset) for each in segments if each.kind == _INTERPRETER]
    libraries = tuple(_libraries(data, order, segments))
    return Program(Platform("linux", _architecture(data, order)), next(iter(interpreters), None), libraries)


def _architecture(data: bytes, order: str) -> str:
    (machine,) = struct.unpack_from(f"{order}H", data, 18)
    if (machine, order) not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES.values())
        words = f"it is for an unknown machine (number {machine}); the known machines are {known}"
        raise InvalidProgram(words)
    return _ARCHITECTURES[machine, order]


def _segments(data: bytes, order: str) -> Iterator[_Segment]:
    (table,) = struct.unpack_from(f"{order}Q", data, 32)
    entry, count = struct.unpack_from(f"{order}HH", data, 54)
    for place in range(table, table + entry * min(count, _MOST_ENTRIES), max(entry, 1)):
        kind, _flags, offset, address, _, size = struct.unpack_from(f"{order}IIQQQQ", data, place)
        yield _Segment(kind, offset, address, size)


def _libraries(data: bytes, order: str, segments: list[_Segment]) -> Iterator[str]:
    entries = [entry for each in segments if each.kind == _DYNAMIC for entry in _dynamic(data, order, each)]
    strings = next((value for tag, value in entries if tag == _STRINGS), None)
    for tag, value in entries:
        if tag == _NEEDED and strings is not None:
            yield _text(data, _place(strings, segments) + value)


def _dynamic(data: bytes, order: str, segment: _Segment) -> Iterator[tuple[int, int]]:
    for number in range(min(segment.size // 16, _MOST_ENTRIES)):
        tag, value = struct.unpack_from(f"{order}qQ", data, segment.offset + 16 * number)
        if tag == _END:
            return
        yield tag, value


def _place(address: int, segments: list[_Segment]) -> int:
    """Where in the file lies what is loaded to that address."""
    for each in segments:
        if each.kind == _LOAD and each.address <= address < each.address + each.size:
            return address - each.address + each.offset
    raise InvalidProgram("its headers point outside the file")


def _text(data: bytes, place: int) -> str:
    end = data.index(b"\0", place) if 0 <= place < len(data) and b"\0" in data[place : place + 4096] else -1
    if end < 0:
        raise InvalidProgram("its headers point outside the file")
    return data[place:end].decode()
