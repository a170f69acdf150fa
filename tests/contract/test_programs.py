"""The programs in the rig's images run anywhere on their architecture: they are static."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from rig.build import golang
from rig.guest import schedulers
from rig.runtimes import images

_AMD64, _ARM64 = 62, 183
_INTERPRETER = 3  # the segment that names the dynamic loader; a static program has none
_NAMES = [*(one.file_name for one in schedulers.catalog().values()), "pause"]


def architecture(program: Path) -> int:
    """The machine it was made for, as its ELF header says."""
    header = program.read_bytes()[:20]
    assert header[:5] == b"\x7fELF\x02", f"{program} is no 64-bit ELF file"
    number: int = struct.unpack_from("<H", header, 18)[0]
    return number


def is_static(program: Path) -> bool:
    """Whether it starts without a dynamic loader, and so without any library."""
    content = program.read_bytes()
    (first,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    kinds = [struct.unpack_from("<I", content, first + index * size)[0] for index in range(count)]
    return bool(kinds) and _INTERPRETER not in kinds


@pytest.mark.parametrize("name", _NAMES)
def test_a_scheduler_is_static_and_for_this_architecture(name: str) -> None:
    program = schedulers.built() / name

    assert (architecture(program), is_static(program)) == (_AMD64, True)


def test_the_probe_is_static() -> None:
    program = golang.build("probe", images.PROBE_SOURCE)

    assert (architecture(program), is_static(program)) == (_AMD64, True)


def test_the_foreign_program_is_for_another_architecture() -> None:
    assert architecture(schedulers.foreign()) == _ARM64


def test_a_program_with_libraries_is_not_taken_for_static() -> None:
    assert not is_static(Path(sys.executable).resolve())
