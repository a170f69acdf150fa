"""BPF objects inside programs: what they cannot be loaded without."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedkit.model.kernel.kfuncs import required_kfuncs

GLOBAL, WEAK = 1 << 4, 2 << 4
DEFINED, UNDEFINED = 3, 0


def bpf_object(*symbols: tuple[str, int, int]) -> bytes:
    """An object with symbols: each has a name, a binding, and a section."""
    strings, entries = b"\0", b"\0" * 24
    for name, binding, section in symbols:
        entries += struct.pack("<IBBHQQ", len(strings), binding, 0, section, 0, 0)
        strings += name.encode() + b"\0"
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQ", 1, 247, 1, 0, 0, 64)
    head += struct.pack("<IHHHHHH", 0, 64, 0, 0, 64, 3, 0)
    symbols_at = 64 + 3 * 64
    tables = [
        bytes(64),
        struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, symbols_at, len(entries), 2, 0, 8, 24),
        struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, symbols_at + len(entries), len(strings), 0, 0, 1, 0),
    ]
    return head + b"".join(tables) + entries + strings


NEEDY = bpf_object(("scx_bpf_kick_cpu", GLOBAL, UNDEFINED), ("scx_bpf_now", WEAK, UNDEFINED))


def test_what_is_called_without_an_alternative_is_required_and_the_rest_is_not() -> None:
    found = bpf_object(
        ("scx_bpf_kick_cpu", GLOBAL, UNDEFINED),
        ("scx_bpf_dsq_insert___compat", GLOBAL, UNDEFINED),
        ("scx_bpf_now", WEAK, UNDEFINED),
        ("scx_bpf_own", GLOBAL, DEFINED),
        ("bpf_cgroup_acquire", GLOBAL, UNDEFINED),
    )

    assert required_kfuncs(found) == {"scx_bpf_kick_cpu", "scx_bpf_dsq_insert"}


def test_objects_are_found_wherever_they_lie_in_a_program() -> None:
    other = bpf_object(("scx_bpf_create_dsq", GLOBAL, UNDEFINED))
    native = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, 62)

    assert required_kfuncs(native + b"code" + NEEDY + b"more" + other) == {
        "scx_bpf_kick_cpu",
        "scx_bpf_create_dsq",
    }


@pytest.mark.parametrize("length", [0, 10, 63, 100, 200, 260])
def test_an_object_that_is_cut_off_before_its_symbols_requires_nothing(length: int) -> None:
    assert required_kfuncs(NEEDY[:length]) == set()


@example(place=153, damage=b"\0\0\0\0\0\0\x80")
@example(place=43, damage=b"\0\0\0\0\x80")
@given(st.integers(0, len(NEEDY) - 1), st.binary(max_size=8))
def test_garbage_is_no_error(place: int, damage: bytes) -> None:
    required_kfuncs(NEEDY[:place] + damage + NEEDY[place + len(damage) :])
