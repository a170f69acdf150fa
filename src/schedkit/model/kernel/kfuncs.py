"""BPF objects that a program carries in itself: which functions of the kernel they cannot be loaded without.

A scheduler's loader has its BPF code in it as a whole ELF object. What that object wants of the kernel are
its undefined symbols; those that are weak it can do without.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

from schedkit.model.kernel.btf import KFUNC_PREFIX

# the head of an object for little-endian BPF: 64 bits, relocatable, machine 247
_HEAD: Final = b"\x7fELF\x02\x01\x01"
_KIND: Final = struct.pack("<HH", 1, 247)
_KIND_AT: Final = 16
_SYMBOLS: Final = 2  # a section's type
_UNDEFINED: Final = 0
_GLOBAL: Final = 1  # a binding: what cannot be left out
_FLAVOUR: Final = "___"  # what follows tells variants of one function apart, and is not part of its name
_MOST_OBJECTS, _MOST_SECTIONS, _MOST_SYMBOLS = 64, 4096, 65536  # a stranger made it
_LONGEST_NAME: Final = 128


def required_kfuncs(program: bytes) -> frozenset[str]:
    """The functions of sched_ext that the program's objects call and cannot do without; of garbage none."""
    objects = islice(_objects(program), _MOST_OBJECTS)
    return frozenset(name for at in objects for name in _required(memoryview(program)[at:]))


def _objects(program: bytes) -> Iterator[int]:
    """Where the objects begin."""
    at = program.find(_HEAD)
    while at >= 0:
        if program[at + _KIND_AT : at + _KIND_AT + len(_KIND)] == _KIND:
            yield at
        at = program.find(_HEAD, at + 1)


def _required(found: memoryview) -> Iterator[str]:
    try:
        symbols = ((at, strings) for table, strings in _tables(found) for at in table)
        for at, strings in islice(symbols, _MOST_SYMBOLS):
            yield from _name(found, at, strings)
    except (struct.error, ValueError, OverflowError):  # it only looked like one
        return


def _tables(found: memoryview) -> Iterator[tuple[range, int]]:
    """Where each symbol of a table lies, and where the strings of that table begin."""
    (sections,) = struct.unpack_from("<Q", found, 40)
    size, count = struct.unpack_from("<HH", found, 58)
    heads = [sections + size * number for number in range(min(count, _MOST_SECTIONS))]
    for head in heads:
        kind, _flags, _address, offset, length, link = struct.unpack_from("<4xIQQQQI", found, head)
        if kind == _SYMBOLS and link < len(heads):
            (strings,) = struct.unpack_from("<Q", found, heads[link] + 24)
            yield range(offset, offset + length, 24), strings


def _name(found: memoryview, at: int, strings: int) -> Iterator[str]:
    """The name of the symbol that lies there, if it is one that the kernel has to have."""
    name, info, _other, section = struct.unpack_from("<IBBH", found, at)
    if section == _UNDEFINED and info >> 4 == _GLOBAL:
        text = bytes(found[strings + name : strings + name + _LONGEST_NAME]).partition(b"\0")[0]
        if text.startswith(KFUNC_PREFIX.encode()):
            yield text.decode("ascii").partition(_FLAVOUR)[0]
