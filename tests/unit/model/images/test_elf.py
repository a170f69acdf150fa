"""Programs' files: what they run on and what they need, and that nothing else is taken for a program."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedkit.model.images.elf import InvalidProgram, parse_program
from schedkit.model.images.references import Platform

# the interpreter that runs this test is a program, too; its own file may be a link into another folder
PYTHON = Path(sys.executable).resolve().read_bytes()


def static(machine: int = 62, *, order: str = "<", bits: int = 2) -> bytes:
    """The header of a program without segments."""
    ident = b"\x7fELF" + bytes([bits, 1 if order == "<" else 2, 1]) + bytes(9)
    return ident + struct.pack(f"{order}HHIQQQIHHHHHH", 2, machine, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)


@pytest.mark.parametrize(
    ("data", "architecture"),
    [
        (static(62), "amd64"),
        (static(183), "arm64"),
        (static(243), "riscv64"),
        (static(22, order=">"), "s390x"),
    ],
)
def test_a_static_program_says_what_it_runs_on_and_needs_nothing(data: bytes, architecture: str) -> None:
    program = parse_program(data)

    assert program.platform == Platform("linux", architecture)
    assert (program.interpreter, program.libraries) == (None, ())


def test_a_dynamic_program_names_its_interpreter_and_libraries() -> None:
    program = parse_program(PYTHON)

    assert program.interpreter is not None
    assert "/ld" in program.interpreter
    assert any(library.startswith("libc.so") for library in program.libraries)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"#!/bin/sh\n", "not an ELF program"),
        (b"", "not an ELF program"),
        (static(bits=1), "not a 64-bit program"),
        (static(40), r"an unknown machine \(number 40\); the known machines are amd64"),
        (static()[:40], "outside the file"),
        (PYTHON[:600], "outside the file"),
    ],
)
def test_anything_else_is_refused_with_the_reason(data: bytes, complaint: str) -> None:
    with pytest.raises(InvalidProgram, match=complaint):
        parse_program(data)


@given(st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), min_size=1, max_size=8))
@example(damage=[(415, 128)])  # a segment beyond all that can be addressed
def test_a_damaged_program_is_read_or_refused(damage: list[tuple[int, int]]) -> None:
    damaged = bytearray(PYTHON[:4096] + bytes(4096))
    for place, value in damage:
        damaged[place] = value

    try:
        program = parse_program(bytes(damaged))
    except InvalidProgram:
        return
    assert program.platform.os == "linux"
