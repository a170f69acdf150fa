"""The product's own reading of BTF, on a few types written by hand; the kernel tier has whole kernels."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rig.guest import btf as derived
from schedkit.model.kernel.btf import ESSENTIAL_KFUNCS, Layout, find_layouts, read_kfuncs

ESSENTIAL = [group[0] for group in ESSENTIAL_KFUNCS]
WORDS = ["u64", "dsq_id", "slice", "common", "data", "flags", "name", "sub_cgroup_id", "bpf_prog_aux"]
NAMES = [*WORDS, *ESSENTIAL, "scx_bpf_now_impl", "aux", "sched_ext_ops", "bpf_struct_ops_sched_ext_ops"]
STRINGS = b"\0" + b"".join(name.encode() + b"\0" for name in NAMES)
INT, STRUCT, FUNC, FUNC_PROTO = (kind << 24 for kind in (1, 4, 12, 13))


def string(text: str) -> int:
    return STRINGS.index(f"\0{text}\0".encode()) + 1


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


TYPES = (
    words(string("u64"), INT, 8, 64)  # 1
    + words(0, FUNC_PROTO | 2, 1, string("dsq_id"), 1, string("slice"), 1)  # 2
    + words(0, FUNC_PROTO | 1, 1, string("aux"), 1)  # 3
    + b"".join(words(string(name), FUNC, 2) for name in ESSENTIAL)
    + words(string("scx_bpf_now_impl"), FUNC, 3)
    + words(string("sched_ext_ops"), STRUCT | 2, 200, string("flags"), 1, 0, string("name"), 1, 320)
    + words(
        string("bpf_struct_ops_sched_ext_ops"),
        STRUCT | 2,
        320,
        string("common"),
        1,
        0,
        string("data"),
        1,
        512,
    )
)


def file(types: bytes = TYPES, strings: bytes = STRINGS, *, order: str = "<") -> bytes:
    if order == ">":
        types = struct.pack(f">{len(types) // 4}I", *struct.unpack(f"<{len(types) // 4}I", types))
    sizes = (0, len(types), len(types), len(strings))
    return struct.pack(f"{order}HBBIIIII", 0xEB9F, 1, 0, 24, *sizes) + types + strings


GOOD = file()


@pytest.mark.parametrize("order", ["<", ">"], ids=["little-endian", "big-endian"])
def test_functions_are_read_with_their_parameters_whatever_the_order_of_bytes(order: str) -> None:
    reading = read_kfuncs(file(order=order))

    assert reading.problem == ""
    assert reading.kfuncs == dict.fromkeys(ESSENTIAL, ("dsq_id", "slice")) | {"scx_bpf_now_impl": ("aux",)}


def test_a_big_file_is_read_without_a_copy_of_it() -> None:
    """An agent has 64 MiB, and this is the biggest thing that it reads: 5 MB on most kernels, 20 on some."""
    content = file(words(string("u64"), INT, 8, 64) * 100_000 + TYPES[16:])
    tracemalloc.start()
    try:
        read_kfuncs(content)
        find_layouts(content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < len(content)


def test_the_kernels_own_half_of_a_function_may_have_the_kernels_argument() -> None:
    assert read_kfuncs(GOOD).malformed == ()
    assert read_kfuncs(GOOD).missing(frozenset()) == ()


def test_a_malformed_function_is_named() -> None:
    bad = derived.with_malformed_kfunc(GOOD, "scx_bpf_kick_cpu")

    assert read_kfuncs(bad).malformed == ("scx_bpf_kick_cpu",)


def test_a_missing_function_is_named_when_every_scheduler_needs_it() -> None:
    bad = derived.without_kfunc(GOOD, "scx_bpf_create_dsq")

    assert read_kfuncs(bad).missing(frozenset()) == ("scx_bpf_create_dsq",)


def test_a_missing_function_is_named_when_the_kernel_has_it() -> None:
    assert read_kfuncs(GOOD).missing(frozenset({"scx_bpf_now", *ESSENTIAL})) == ("scx_bpf_now",)


def test_the_older_name_of_a_function_is_as_good() -> None:
    renamed = STRINGS.replace(b"\0scx_bpf_dsq_insert\0", b"\0scx_bpf_dispatch\0\0\0")

    assert read_kfuncs(file(strings=renamed)).missing(frozenset()) == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "too short"),
        (derived.GARBAGE, "does not begin like a BTF file"),
        (derived.truncated(GOOD), "is shorter than its header says"),
        (file(TYPES + words(0, STRUCT | 7, 8)), "cut off"),
        (file(words(string("scx_bpf_kick_cpu"), FUNC, 77)), "type 77, which is not a prototype"),
    ],
)
def test_what_is_no_btf_is_a_problem_in_words(content: bytes, problem: str) -> None:
    assert problem in read_kfuncs(content).problem
    assert read_kfuncs(content).kfuncs == {}


def test_a_kind_of_type_that_came_later_is_no_fault_of_the_kernels() -> None:
    reading = read_kfuncs(file(TYPES + words(0, 99 << 24, 0)))

    assert (reading.problem, reading.kfuncs) == ("", {})
    assert reading.novelty.endswith("is of kind 99, which is unknown")


def test_the_place_of_a_schedulers_name_is_found() -> None:
    assert find_layouts(GOOD) == (Layout(value_size=320, name_at=64 + 40, sub_cgroup_at=None),)


def test_the_place_of_a_schedulers_cgroup_is_found_where_there_is_one() -> None:
    ops = words(
        string("sched_ext_ops"), STRUCT | 2, 200, string("sub_cgroup_id"), 1, 64, string("name"), 1, 320
    )
    wrapper = TYPES[-36:]

    assert find_layouts(file(ops + wrapper)) == (Layout(320, 104, sub_cgroup_at=72),)


def test_a_kernel_without_sched_ext_has_no_layout() -> None:
    assert find_layouts(file(TYPES[:-72])) == ()


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=8))
@settings(max_examples=50)
def test_no_damage_makes_it_raise(place: int, damage: bytes) -> None:
    broken = GOOD[:place] + damage + GOOD[place + len(damage) :]

    read_kfuncs(broken)
    find_layouts(broken)
