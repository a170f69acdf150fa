"""BTF: what a kernel says about its own types. Enough of it to tell whether schedulers can be loaded.

Libbpf matches each function that a scheduler calls against the kernel's BTF. A kernel built with a pahole
that is too old describes some of them wrongly, or not at all, and then refuses every scheduler.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

_MAGIC = 0xEB9F
_HEADER_SIZE = 24
_WORD = 4
_MAX_MEMBERS = 4096
_STRUCT, _FUNC, _FUNC_PROTO = 4, 12, 13
# words after a type's first three: always, and for each member
_TRAILERS = {
    1: (1, 0),  # INT
    2: (0, 0),  # PTR
    3: (3, 0),  # ARRAY
    4: (0, 3),  # STRUCT
    5: (0, 3),  # UNION
    6: (0, 2),  # ENUM
    7: (0, 0),  # FWD
    8: (0, 0),  # TYPEDEF
    9: (0, 0),  # VOLATILE
    10: (0, 0),  # CONST
    11: (0, 0),  # RESTRICT
    12: (0, 0),  # FUNC
    13: (0, 2),  # FUNC_PROTO
    14: (1, 0),  # VAR
    15: (0, 3),  # DATASEC
    16: (0, 0),  # FLOAT
    17: (1, 0),  # DECL_TAG
    18: (0, 0),  # TYPE_TAG
    19: (0, 3),  # ENUM64
}
KFUNC_PREFIX = "scx_bpf_"
# the kernel's own half of a function; only there may the argument stand that the kernel adds itself
_INNER = "_impl"
_KERNELS_ARGUMENT = "aux"
# what most schedulers call, one of each group: kernels before 6.13 have the older name
ESSENTIAL_KFUNCS: tuple[tuple[str, ...], ...] = (
    ("scx_bpf_create_dsq",),
    ("scx_bpf_dsq_insert", "scx_bpf_dispatch"),
    ("scx_bpf_dsq_insert_vtime", "scx_bpf_dispatch_vtime"),
    ("scx_bpf_dsq_move_to_local", "scx_bpf_consume"),
    ("scx_bpf_select_cpu_dfl",),
    ("scx_bpf_kick_cpu",),
    ("scx_bpf_task_cpu",),
    ("scx_bpf_error_bstr",),
    ("scx_bpf_exit_bstr",),
)

Words: TypeAlias = "memoryview[int]"


class BtfReading(NamedTuple):
    """What a BTF file says about the functions of sched_ext."""

    problem: str = ""  # why it says nothing: absent, or not BTF
    kfuncs: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # the names of their parameters
    novelty: str = ""  # why it says nothing to us: it is newer than what we can read

    @property
    def malformed(self) -> tuple[str, ...]:
        """Functions that show an argument which only the kernel itself may pass."""
        public = (name for name in self.kfuncs if not name.endswith(_INNER))
        return tuple(sorted(name for name in public if _KERNELS_ARGUMENT in self.kfuncs[name]))

    def missing(self, symbols: frozenset[str]) -> tuple[str, ...]:
        """Functions that the kernel has, by its symbols, or that most schedulers call, and BTF lacks."""
        essential = (group[0] for group in ESSENTIAL_KFUNCS if not any(name in self.kfuncs for name in group))
        return tuple(sorted({*essential, *symbols} - set(self.kfuncs)))


def read_kfuncs(content: bytes) -> BtfReading:
    """Take a BTF file apart; garbage is a problem, never an exception."""
    try:
        return BtfReading(kfuncs=_kfuncs(_sections(content)))
    except _UnknownKindError as error:
        return BtfReading(novelty=str(error))
    except _MalformedError as error:
        return BtfReading(problem=str(error))


class Layout(NamedTuple):
    """Where the value of a struct_ops map of sched_ext keeps what identifies a scheduler; in bytes."""

    value_size: int
    name_at: int
    sub_cgroup_at: int | None  # None: this kernel has no sub-schedulers


def find_layouts(content: bytes) -> tuple[Layout, ...]:
    """The layouts of this kernel's kinds of sched_ext schedulers; none when it does not say.

    It searches for the types by name, which is a hundred times faster than walking to them.
    """
    try:
        btf = _sections(content)
    except _MalformedError:
        return ()
    found = (_layout(btf, name) for name in ("sched_ext_ops", "sched_ext_ops_cid"))
    return tuple(layout for layout in found if layout is not None)


class _MalformedError(Exception):
    """The file is not the BTF it claims to be."""


class _UnknownKindError(Exception):
    """The file has a kind of type that came after us: where the next one begins is not known."""


class _Sections(NamedTuple):
    """A file taken apart, without a copy of its parts: it is among the biggest things that anybody reads."""

    order: str  # of the bytes in a word, as `struct` writes it
    content: bytes
    types: range  # where they stand
    strings: range

    def words(self) -> Words:
        """The types as words."""
        words = memoryview(self.content)[self.types.start : self.types.stop].cast("I")
        if struct.pack(f"{self.order}I", 1) == struct.pack("=I", 1):
            return words
        swapped = array("I", words)
        swapped.byteswap()
        return memoryview(swapped)

    def text(self, offset: int) -> str:
        """The string that begins there."""
        begin = self.strings.start + offset
        end = self.content.find(b"\0", begin, self.strings.stop)
        return self.content[begin:end].decode(errors="replace") if end >= 0 else ""


def _sections(content: bytes) -> _Sections:
    if len(content) < _HEADER_SIZE:
        raise _MalformedError("the file is too short to be BTF")
    order = next((each for each in "<>" if struct.unpack_from(f"{each}H", content)[0] == _MAGIC), None)
    if order is None:
        raise _MalformedError("the file does not begin like a BTF file")
    length, types_at, types_size, strings_at, strings_size = struct.unpack_from(f"{order}5I", content, 4)
    types = range(length + types_at, length + types_at + types_size)
    strings = range(length + strings_at, length + strings_at + strings_size)
    if max(types.stop, strings.stop) > len(content) or types_size % _WORD:
        raise _MalformedError("the file is shorter than its header says")
    return _Sections(order, content, types, strings)


def _kfuncs(btf: _Sections) -> dict[str, tuple[str, ...]]:
    words = btf.words()
    starts = _starts(words)
    functions = (at for at in starts[1:] if _kind(words[at + 1]) == _FUNC)
    prefix = KFUNC_PREFIX.encode()
    return {
        btf.text(words[at]): tuple(map(btf.text, _parameters(words, starts, words[at + 2])))
        for at in functions
        if btf.content.startswith(prefix, btf.strings.start + words[at], btf.strings.stop)
    }


def _starts(words: Words) -> array[int]:
    """The word at which each type begins, by its number; number 0 is void."""
    starts, at, end = array("I", [0]), 0, len(words)
    while at + 2 < end:
        starts.append(at)
        info = words[at + 1]
        trailer = _TRAILERS.get(_kind(info))
        if trailer is None:
            raise _UnknownKindError(f"type {len(starts) - 1} is of kind {_kind(info)}, which is unknown")
        at += 3 + trailer[0] + trailer[1] * _count(info)
    if at != end:
        raise _MalformedError("the last type is cut off")
    return starts


def _parameters(words: Words, starts: array[int], prototype: int) -> Words:
    """Where the names of a prototype's parameters begin among the strings."""
    if not 0 < prototype < len(starts) or _kind(words[starts[prototype] + 1]) != _FUNC_PROTO:
        raise _MalformedError(f"a function refers to type {prototype}, which is not a prototype")
    at = starts[prototype]
    return words[at + 3 : at + 3 + 2 * _count(words[at + 1]) : 2]


def _kind(info: int) -> int:
    return info >> 24 & 0x7F


def _count(info: int) -> int:
    return info & 0xFFFFFF


class _Struct(NamedTuple):
    size: int
    members: Mapping[str, int]  # where each begins, in bytes


def _layout(btf: _Sections, name: str) -> Layout | None:
    """The layout of the value that wraps a struct of that name."""
    ops = _struct(btf, name, having="name")
    wrapper = _struct(btf, f"bpf_struct_ops_{name}", having="data")
    if ops is None or wrapper is None:
        return None
    begin, sub_cgroup = wrapper.members["data"], ops.members.get("sub_cgroup_id")
    sub_cgroup_at = None if sub_cgroup is None else begin + sub_cgroup
    return Layout(wrapper.size, begin + ops.members["name"], sub_cgroup_at)


def _struct(btf: _Sections, name: str, *, having: str) -> _Struct | None:
    """The struct of that name with such a member; None if there is none."""
    place = btf.content.find(b"\0" + name.encode() + b"\0", btf.strings.start, btf.strings.stop)
    offset = place - btf.strings.start + 1 if place >= 0 else 0
    candidates = (_struct_at(btf, at) for at in _places(btf, offset)) if offset else ()
    return next((each for each in candidates if each and having in each.members), None)


def _places(btf: _Sections, word: int) -> Iterator[int]:
    """Where that word stands among the types, in the whole file."""
    pattern = struct.pack(f"{btf.order}I", word)
    at = btf.content.find(pattern, btf.types.start, btf.types.stop)
    while at >= 0:
        if (at - btf.types.start) % _WORD == 0:
            yield at
        at = btf.content.find(pattern, at + 1, btf.types.stop)


def _struct_at(btf: _Sections, at: int) -> _Struct | None:
    """The struct whose type begins at that byte; None if something else does."""
    first = at + 3 * _WORD
    if first > btf.types.stop:
        return None
    _, info, size = struct.unpack_from(f"{btf.order}3I", btf.content, at)
    last = min(first + 3 * _WORD * min(_count(info), _MAX_MEMBERS), btf.types.stop)
    members = btf.content[first:last]
    if _kind(info) != _STRUCT or not _count(info) or len(members) != 3 * _WORD * _count(info):
        return None
    places = {
        btf.text(name): (bits & 0xFFFFFF) // 8
        for name, _, bits in struct.iter_unpack(f"{btf.order}3I", members)
    }
    return _Struct(size, places)
