"""The kernel's small texts become values, and garbage becomes none."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedkit.kernel import file_formats, held_objects, kmsg, uevents
from schedkit.model.kernel import btf
from schedkit.model.kernel.capabilities import CAPABILITIES
from schedkit.model.kernel.log import interpret
from schedkit.model.kernel.sched_ext import State, parse_version
from schedkit.model.readiness import seccomp

EVENTS = """\
SCX_EV_SELECT_CPU_FALLBACK 0
SCX_EV_DISPATCH_KEEP_LAST 17
SCX_EV_BYPASS_DURATION 108609293
SCX_EV_NOT_INVENTED_YET 3
"""
CONFIG = b"""\
#
# Automatically generated file; DO NOT EDIT.
# Linux/x86 6.18.15 Kernel Configuration
#
CONFIG_BPF=y
CONFIG_OVERLAY_FS=m
CONFIG_LOCALVERSION="-cloud"
# CONFIG_SCHED_CLASS_EXT is not set
"""
ROOTS_POWERS = "Name:\tcat\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n"


@pytest.mark.parametrize("word", ["disabled", "enabling", "enabled", "disabling"])
def test_each_of_the_kernels_four_states_is_known(word: str) -> None:
    assert file_formats.state(f"{word}\n").value == word


@pytest.mark.parametrize("word", ["", "prepping", "absent", "unknown", "ENABLED", "enabled disabled"])
def test_any_other_word_is_an_unknown_state(word: str) -> None:
    assert file_formats.state(word) is State.UNKNOWN


@pytest.mark.parametrize(
    ("text", "expected"), [("12\n", 12), ("0", 0), ("", None), ("-1", None), ("1 2", None), ("٣", None)]
)
def test_a_number_is_decimal_and_alone(text: str, expected: int | None) -> None:
    assert file_formats.number(text) == expected


def test_events_are_read_whatever_their_names() -> None:
    assert file_formats.events(EVENTS) == {
        "SCX_EV_SELECT_CPU_FALLBACK": 0,
        "SCX_EV_DISPATCH_KEEP_LAST": 17,
        "SCX_EV_BYPASS_DURATION": 108609293,
        "SCX_EV_NOT_INVENTED_YET": 3,
    }


@pytest.mark.parametrize("content", [CONFIG, gzip.compress(CONFIG)], ids=["plain", "packed"])
def test_a_config_is_read_packed_or_not(content: bytes) -> None:
    assert file_formats.config(content) == {
        "BPF": "y",
        "OVERLAY_FS": "m",
        "LOCALVERSION": '"-cloud"',
        "SCHED_CLASS_EXT": "n",
    }
    assert file_formats.config_release(content) == "6.18.15"


def test_a_config_that_unpacks_without_end_is_cut_off() -> None:
    bomb = gzip.compress(b"CONFIG_BPF=y\n" + b" " * (16 << 20))

    assert file_formats.config(bomb) == {"BPF": "y"}


def test_root_has_every_capability() -> None:
    assert file_formats.capabilities(ROOTS_POWERS) == frozenset(CAPABILITIES)


def test_a_bit_in_the_mask_is_one_capability() -> None:
    bpf_and_perfmon = "CapEff:\t000000c000000000\n"

    assert file_formats.capabilities(bpf_and_perfmon) == frozenset({"CAP_BPF", "CAP_PERFMON"})


def test_a_status_without_capabilities_says_nothing_about_them() -> None:
    assert file_formats.capabilities("Name:\tcat\n") is None


@pytest.mark.parametrize(
    ("command_line", "isolated"),
    [
        pytest.param("quiet isolcpus=2-3,6 ro", "2-3,6", id="without a flag CPUs leave the domains"),
        pytest.param("isolcpus=domain,managed_irq,2", "2", id="with the flag domain, too"),
        pytest.param("isolcpus=nohz,2", "", id="with nohz alone they stay"),
        pytest.param("isolcpus=managed_irq,2", "", id="with managed_irq alone they stay"),
        pytest.param("isolcpus=", "", id="no CPU is no isolation"),
        pytest.param("myisolcpus=2", "", id="another option of a longer name"),
        pytest.param("root=/dev/sda1 ro", "", id="nothing"),
    ],
)
def test_isolation_follows_the_kernels_reading_of_isolcpus(command_line: str, isolated: str) -> None:
    assert file_formats.isolated_from_scheduling(command_line) == isolated


def test_symbols_are_the_functions_for_bpf_and_nothing_that_resembles_them() -> None:
    listing = b"""\
0000000000000000 T scx_bpf_dsq_insert
0000000000000000 t scx_bpf_now
0000000000000000 T scx_bpf_kick_cpu.cold
0000000000000000 d scx_bpf_table
0000000000000000 T __pfx_scx_bpf_now
0000000000000000 t scx_bpf_module_function\t[module]
0000000000000000 T schedule
"""
    assert file_formats.kfunc_symbols(listing) == {"scx_bpf_dsq_insert", "scx_bpf_now"}


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.18.15+deb13-cloud-amd64", (6, 18, 15)), ("7.2-rc1", (7, 2, 0)), ("", None), ("next", None)],
)
def test_a_release_begins_with_its_version(release: str, version: tuple[int, int, int] | None) -> None:
    assert parse_version(release) == version


TEXT_PARSERS: list[Callable[[str], object]] = [
    file_formats.state,
    file_formats.number,
    file_formats.events,
    file_formats.capabilities,
    file_formats.isolated_from_scheduling,
    file_formats.fields,
    parse_version,
    held_objects.parse_cgroups,
    lambda text: held_objects.parse_link(1, file_formats.fields(text)),
    lambda text: held_objects.parse_map(1, file_formats.fields(text)),
]
BYTE_PARSERS: list[Callable[[bytes], object]] = [
    file_formats.config,
    file_formats.config_release,
    file_formats.kfunc_symbols,
    lambda content: interpret(kmsg.parse(content)),
    uevents.parse,
    btf.read_kfuncs,
    btf.find_layouts,
    seccomp.allows_bpf,
]


@given(st.text())
@example("CapEff: " + "f" * 40)
@example("a" * 10_000 + "=1" * 10_000)
@settings(max_examples=50)
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parse in TEXT_PARSERS:
        parse(text)


@given(st.one_of(st.binary(max_size=200), st.text().map(str.encode)))
@example(b"\x1f\x8b\x08garbage")
@example(b'6,1,2,-;sched_ext: BPF scheduler "" disabled ()\n' * 3)
@example(b'{"syscalls": [{"names": ["bpf"]}]}')
@settings(max_examples=50)
def test_no_bytes_make_a_parser_raise(content: bytes) -> None:
    for parse in BYTE_PARSERS:
        parse(content)
