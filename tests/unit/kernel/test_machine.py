"""What a machine offers: found where it lies, and said to be where it is."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from schedkit.kernel import machine
from schedkit.model.kernel.sched_ext import State

RELEASE = "6.18.15-test"
CONFIG = b"# Linux/x86 6.18.15 Kernel Configuration\nCONFIG_SCHED_CLASS_EXT=y\n"


def put(root: Path, name: str, content: bytes) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("place", "is_found_by_libbpf"),
    [
        ("proc/config.gz", True),
        (f"boot/config-{RELEASE}", True),
        (f"lib/modules/{RELEASE}/config", False),
        (f"lib/modules/{RELEASE}/build/.config", False),
    ],
)
def test_a_config_is_found_at_each_of_its_places(
    tmp_path: Path, place: str, is_found_by_libbpf: bool
) -> None:
    put(tmp_path, place, gzip.compress(CONFIG) if place.endswith("gz") else CONFIG)

    config = machine.find_config(tmp_path, RELEASE)

    assert config is not None
    assert (config.path, config.is_found_by_libbpf) == (str(tmp_path / place), is_found_by_libbpf)
    assert config.options == {"SCHED_CLASS_EXT": "y"}


def test_where_libbpf_looks_comes_first(tmp_path: Path) -> None:
    put(tmp_path, f"lib/modules/{RELEASE}/config", b"CONFIG_BPF=n\n")
    put(tmp_path, f"boot/config-{RELEASE}", CONFIG)

    config = machine.find_config(tmp_path, RELEASE)

    assert config is not None
    assert config.is_found_by_libbpf


def test_another_kernels_config_is_not_taken(tmp_path: Path) -> None:
    put(tmp_path, "boot/config-6.1.0", CONFIG)

    assert machine.find_config(tmp_path, RELEASE) is None


def test_a_machine_is_observed_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    put(tmp_path, "sys/kernel/sched_ext/state", b"disabled\n")
    put(tmp_path, "proc/cmdline", b"quiet isolcpus=3\n")
    put(tmp_path, "proc/self/status", b"CapEff:\t000000c000000000\n")
    put(tmp_path, "proc/kallsyms", b"0000000000000000 T scx_bpf_now\n")

    facts = machine.observe(tmp_path)

    assert (facts.release, facts.architecture) == (os.uname().release, os.uname().machine)
    assert (facts.state, facts.isolated_cpus) == (State.DISABLED, "3")
    assert facts.capabilities == frozenset({"CAP_BPF", "CAP_PERFMON"})
    assert facts.symbols == {"scx_bpf_now"}
    assert facts.btf is not None
    assert "cannot be read" in facts.btf.problem


def test_what_can_be_traced_is_there_not_there_or_not_ours_to_see(tmp_path: Path) -> None:
    assert machine.shows_tracing(tmp_path) is False

    put(tmp_path, "sys/kernel/tracing/available_events", b"")
    assert machine.shows_tracing(tmp_path) is machine.observe(tmp_path).shows_tracing is True


def test_a_folder_that_is_roots_alone_is_not_taken_for_nothing(tmp_path: Path) -> None:
    put(tmp_path, "sys/kernel/tracing/available_events", b"")
    (tmp_path / "sys/kernel/tracing").chmod(0)
    myself = os.geteuid()
    os.seteuid(myself or 65534)
    try:
        assert machine.shows_tracing(tmp_path) is None
    finally:
        os.seteuid(myself)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read"), (b"PNG", "is not a kernel config"), (b"", "is not a kernel config")],
)
def test_a_wrong_file_is_not_taken_for_no_file(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        put(tmp_path, "config", content)

    facts = machine.describe(config=tmp_path / "config", btf=None)

    assert facts.config is not None
    assert problem in facts.config.problem


def test_a_kernel_that_does_not_run_is_known_by_its_files(tmp_path: Path) -> None:
    put(tmp_path, "config", CONFIG)

    facts = machine.describe(config=tmp_path / "config", btf=None)

    assert (facts.release, facts.state, facts.btf) == ("6.18.15", None, None)
    assert facts.config is not None
    assert (facts.config.options["SCHED_CLASS_EXT"], facts.config.problem) == ("y", "")
    assert machine.describe(config=None, btf=None).config is None


@pytest.mark.parametrize(
    ("option", "architecture"),
    [("CONFIG_X86_64=y", "x86_64"), ("CONFIG_ARM64=y", "aarch64"), ("# CONFIG_X86_64 is not set", "")],
)
def test_a_config_says_for_which_machines_its_kernel_is(
    option: str, architecture: str, tmp_path: Path
) -> None:
    put(tmp_path, "config", f"{option}\n".encode())

    assert machine.describe(config=tmp_path / "config", btf=None).architecture == architecture
