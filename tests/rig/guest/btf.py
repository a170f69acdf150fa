"""Good and bad BTF: what a kernel says of its own types, and files derived from it that are wrong in one way.

Bad BTF is not a kernel of its own. Tests take the good BTF of a rig's kernel and derive from it what they
need: a kfunc that an old pahole got wrong, a kfunc that is missing, a file that ends too early, or none at
all. Type numbers never shift, so that a derived file differs from the good one in the place it is about and
nowhere else.
"""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rig.base import cache
from rig.base.errors import RigError
from rig.guest import kernels, vm

RUNNING = Path("/sys/kernel/btf/vmlinux")  # of the kernel we run on
GARBAGE = b"this is not BTF\n" * 64

_MAGIC = 0xEB9F
_HEADER = struct.Struct(
    "<HBBIIIII"
)  # magic, version, flags, length; offset and length of types and of strings
_TYPE = struct.Struct("<III")  # name, info, size or target
_PARAMETER = struct.Struct("<II")  # name, type
_VOID = 0
_PTR, _STRUCT, _FUNC, _FUNC_PROTO = 2, 4, 12, 13
# what follows a type's three words, by its kind: a number of words, and as many again for each member
_TRAILERS = {
    1: (1, 0),  # INT
    _PTR: (0, 0),
    3: (3, 0),  # ARRAY
    _STRUCT: (0, 3),
    5: (0, 3),  # UNION
    6: (0, 2),  # ENUM
    7: (0, 0),  # FWD
    8: (0, 0),  # TYPEDEF
    9: (0, 0),  # VOLATILE
    10: (0, 0),  # CONST
    11: (0, 0),  # RESTRICT
    _FUNC: (0, 0),
    _FUNC_PROTO: (0, 2),
    14: (1, 0),  # VAR
    15: (0, 3),  # DATASEC
    16: (0, 0),  # FLOAT
    17: (1, 0),  # DECL_TAG
    18: (0, 0),  # TYPE_TAG
    19: (0, 3),  # ENUM64
}


def obtain(kind: str) -> Path:
    """The BTF of the rig's kernel of that kind, as that kernel shows it; the first call boots a guest."""
    kernel = kernels.obtain(kind)
    return cache.entry("btf", kernel.release, lambda folder: _copy_out(kernel, folder)) / "vmlinux"


def _copy_out(kernel: kernels.Kernel, folder: Path) -> None:
    if os.uname().release == kernel.release:  # we are in a guest with this kernel, and cannot boot another
        shutil.copyfile(RUNNING, folder / "vmlinux")
        return
    with vm.Guest(kernel, vm.Settings(name="btf")) as guest:
        copied = guest.run(f"cp {RUNNING} /mnt/share/vmlinux")
        if copied.exit_code != 0:
            raise RigError(f"kernel {kernel.release} shows no BTF: {copied.output}")
        shutil.copyfile(guest.share / "vmlinux", folder / "vmlinux")


@dataclass(frozen=True)
class Btf:
    """A file taken apart. Types are numbered from 1; 0 is void."""

    types: bytes
    strings: bytes

    @classmethod
    def parse(cls, file: bytes) -> Btf:
        """Take a file apart; raises `RigError` when its header does not fit it."""
        if len(file) < _HEADER.size or file[:2] != _MAGIC.to_bytes(2, "little"):
            raise RigError("this is no BTF: it does not begin with BTF's magic number")
        *_, length, types_at, types_size, strings_at, strings_size = _HEADER.unpack_from(file)
        types = file[length + types_at :][:types_size]
        strings = file[length + strings_at :][:strings_size]
        if (len(types), len(strings)) != (types_size, strings_size):
            raise RigError("this BTF ends before the end that its header announces")
        return cls(types, strings)

    def render(self) -> bytes:
        """The file of these types and strings; what else the original held is left out."""
        sections = (0, len(self.types), len(self.types), len(self.strings))
        return _HEADER.pack(_MAGIC, 1, 0, _HEADER.size, *sections) + self.types + self.strings

    def prototypes(self, prefix: str) -> dict[str, tuple[str, ...]]:
        """The names of the parameters of each function whose name begins so."""
        return {
            self._text(self._word(number, 0)): self._parameter_names(self.target(number))
            for number in self._named(_FUNC, prefix.encode())
        }

    def function(self, name: str) -> int:
        """The number of the function of that name; raises `RigError` unless there is exactly one."""
        found = self._named(_FUNC, name.encode() + b"\0")
        if len(found) != 1:
            raise RigError(f"this BTF has {len(found)} functions named {name}, and one is needed")
        return found[0]

    def struct_or_void(self, name: str) -> int:
        """The number of the struct of that name; void where there is none."""
        return next(iter(self._named(_STRUCT, name.encode() + b"\0")), _VOID)

    def parameters(self, prototype: int) -> list[tuple[int, int]]:
        """(name, type) of each parameter of a prototype."""
        begin = self.place(prototype) + _TYPE.size
        end = begin + (self._word(prototype, 1) & 0xFFFFFF) * _PARAMETER.size
        return list(_PARAMETER.iter_unpack(self.types[begin:end]))

    def target(self, number: int) -> int:
        """What a type refers to: a function's prototype, what a prototype returns."""
        return self._word(number, 2)

    def place(self, number: int) -> int:
        """Where a type begins among the bytes of `types`."""
        return 4 * self._starts[number]

    def next_number(self) -> int:
        """The number that a type gets when it is appended."""
        return len(self._starts)

    def _named(self, kind: int, beginning: bytes) -> list[int]:
        """The types of a kind whose name begins so; a name ends with a zero byte."""
        words, begins = self._words, self.strings.startswith
        places = list(enumerate(self._starts))[1:]
        found = ((number, at) for number, at in places if words[at + 1] >> 24 & 0x7F == kind)
        return [number for number, at in found if begins(beginning, words[at])]

    def _word(self, number: int, index: int) -> int:
        return self._words[self._starts[number] + index]

    def _parameter_names(self, prototype: int) -> tuple[str, ...]:
        return tuple(self._text(name) for name, _ in self.parameters(prototype))

    def _text(self, offset: int) -> str:
        return self.strings[offset : self.strings.index(b"\0", offset)].decode()

    @cached_property
    def _words(self) -> memoryview[int]:
        return memoryview(self.types).cast("I")

    @cached_property
    def _starts(self) -> list[int]:
        """The word at which each type begins, by number; void has none, and stands in with 0."""
        words, starts, at = self._words, [0], 0
        while at < len(words):
            starts.append(at)
            info = words[at + 1]
            kind, members = info >> 24 & 0x7F, info & 0xFFFFFF
            if kind not in _TRAILERS:
                raise RigError(f"this BTF has types of kind {kind}: add its layout to {__name__}")
            fixed, each = _TRAILERS[kind]
            at += 3 + fixed + each * members
        return starts


def with_malformed_kfunc(file: bytes, name: str) -> bytes:
    """A good BTF, but the kfunc shows the argument `aux`, which only the kernel itself may pass.

    That is what an old pahole makes of 7.x kernels; no scheduler that calls the kfunc can be loaded then.
    Other functions keep their prototypes, also those that shared it.
    """
    btf = Btf.parse(file)
    function, pointer = btf.function(name), btf.next_number()
    aux, strings = _with_string(btf.strings, "aux")
    prototype = _lengthened(btf, btf.target(function), (aux, pointer))
    types = _with_word(btf.types, btf.place(function) + 8, pointer + 1)
    types += _pointer_to(btf.struct_or_void("bpf_prog_aux")) + prototype
    return Btf(types, strings).render()


def without_kfunc(file: bytes, name: str) -> bytes:
    """A good BTF of a kernel that has no such function: nothing in it has that name."""
    btf = Btf.parse(file)
    renamed, strings = _with_string(btf.strings, f"absent_{name}")
    return Btf(_with_word(btf.types, btf.place(btf.function(name)), renamed), strings).render()


def truncated(file: bytes) -> bytes:
    """The first half of a file, as a full disk or a broken copy leaves it."""
    return file[: len(file) // 2]


def _pointer_to(target: int) -> bytes:
    return _TYPE.pack(0, _PTR << 24, target)


def _lengthened(btf: Btf, prototype: int, parameter: tuple[int, int]) -> bytes:
    """A copy of the prototype with one parameter more."""
    parameters = [*btf.parameters(prototype), parameter]
    head = _TYPE.pack(0, _FUNC_PROTO << 24 | len(parameters), btf.target(prototype))
    return head + b"".join(_PARAMETER.pack(*each) for each in parameters)


def _with_string(strings: bytes, text: str) -> tuple[int, bytes]:
    """Where the text begins in the strings it is appended to."""
    return len(strings), strings + text.encode() + b"\0"


def _with_word(types: bytes, at: int, word: int) -> bytes:
    return types[:at] + word.to_bytes(4, "little") + types[at + 4 :]
