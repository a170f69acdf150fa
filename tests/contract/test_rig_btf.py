"""Bad BTF is derived from good BTF: shown on one of eight types, written by hand."""

from __future__ import annotations

import struct

import pytest

from rig.base.errors import RigError
from rig.guest import btf
from rig.guest.btf import Btf

STRINGS = b"\0u64\0dsq_id\0slice\0scx_bpf_insert\0scx_bpf_move\0bpf_prog_aux\0state\0"


def string(text: str) -> int:
    return STRINGS.index(f"\0{text}\0".encode()) + 1


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


INT, STRUCT, ENUM, FUNC, FUNC_PROTO, DECL_TAG = (kind << 24 for kind in (1, 4, 6, 12, 13, 17))
INSERT_AT = 16 + 24 + 20 + 28
TYPES = (
    words(string("u64"), INT, 8, 64)  # 1
    + words(string("bpf_prog_aux"), STRUCT | 1, 8, string("slice"), 1, 0)  # 2
    + words(string("state"), ENUM | 1, 4, string("slice"), 7)  # 3
    + words(0, FUNC_PROTO | 2, 1, string("dsq_id"), 1, string("slice"), 1)  # 4: u64 (*)(u64, u64)
    + words(string("scx_bpf_insert"), FUNC, 4)  # 5
    + words(string("scx_bpf_move"), FUNC, 4)  # 6: shares its prototype
    + words(string("slice"), DECL_TAG, 5, 0xFFFFFFFF)  # 7
    + words(string("u64"), FUNC, 4)  # 8: neither a kfunc nor of sched_ext
)
HEADER = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(TYPES), len(TYPES), len(STRINGS))
GOOD = HEADER + TYPES + STRINGS
SOUND = {"scx_bpf_insert": ("dsq_id", "slice"), "scx_bpf_move": ("dsq_id", "slice")}


def prototypes(file: bytes) -> dict[str, tuple[str, ...]]:
    return Btf.parse(file).prototypes("scx_bpf_")


def test_functions_are_read_with_the_names_of_their_parameters() -> None:
    assert prototypes(GOOD) == SOUND


def test_what_is_taken_apart_and_put_together_is_the_same_file() -> None:
    assert Btf.parse(GOOD).render() == GOOD


def test_a_longer_header_is_no_obstacle() -> None:
    longer = struct.pack("<HBBIIIIIII", 0xEB9F, 1, 0, 32, 0, len(TYPES), len(TYPES), len(STRINGS), 0, 0)

    assert Btf.parse(longer + TYPES + STRINGS) == Btf.parse(GOOD)


def test_a_malformed_kfunc_shows_aux_as_its_last_parameter_and_no_other_function_does() -> None:
    bad = btf.with_malformed_kfunc(GOOD, "scx_bpf_insert")

    assert prototypes(bad) == SOUND | {"scx_bpf_insert": ("dsq_id", "slice", "aux")}


def test_aux_is_a_pointer_to_the_struct_that_the_kernel_passes() -> None:
    bad = Btf.parse(btf.with_malformed_kfunc(GOOD, "scx_bpf_insert"))

    pointer, prototype = 9, 10
    assert bad.target(5) == prototype
    assert bad.target(prototype) == 1, "it returns what it returned"
    assert [kind for _, kind in bad.parameters(prototype)] == [1, 1, pointer]
    assert bad.target(pointer) == 2


def test_a_malformed_kfunc_changes_one_word_and_appends() -> None:
    bad = Btf.parse(btf.with_malformed_kfunc(GOOD, "scx_bpf_insert"))

    assert bad.types[: INSERT_AT + 8] == TYPES[: INSERT_AT + 8]
    assert bad.types[INSERT_AT + 8 : len(TYPES)] == words(10) + TYPES[INSERT_AT + 12 :]
    assert bad.strings == STRINGS + b"aux\0"


def test_a_kfunc_that_is_taken_away_leaves_every_other_one_and_the_numbers_of_all_types() -> None:
    bad = Btf.parse(btf.without_kfunc(GOOD, "scx_bpf_insert"))

    assert bad.prototypes("scx_bpf_") == {"scx_bpf_move": ("dsq_id", "slice")}
    assert bad.next_number() == Btf.parse(GOOD).next_number() == 9
    with pytest.raises(RigError, match="0 functions named scx_bpf_insert"):
        bad.function("scx_bpf_insert")


def test_a_kfunc_that_is_not_there_cannot_be_malformed() -> None:
    with pytest.raises(RigError, match="0 functions named scx_bpf_bogus"):
        btf.with_malformed_kfunc(GOOD, "scx_bpf_bogus")


def test_a_truncated_file_begins_well_and_ends_too_early() -> None:
    half = btf.truncated(GOOD)

    assert GOOD.startswith(half)
    with pytest.raises(RigError, match="ends before"):
        Btf.parse(half)


@pytest.mark.parametrize("file", [b"", GOOD[:10], btf.GARBAGE], ids=["empty", "a torn header", "garbage"])
def test_what_is_no_btf_is_refused(file: bytes) -> None:
    with pytest.raises(RigError, match="no BTF"):
        Btf.parse(file)


def test_a_kind_that_we_do_not_know_is_named_instead_of_misread() -> None:
    unknown = Btf(words(0, 99 << 24, 0), b"\0")

    with pytest.raises(RigError, match="types of kind 99"):
        unknown.prototypes("")
