"""The guest is what it claims: a real kernel of the right kind on the machine's own, protected root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rig.base import processes
from rig.guest import kernels

pytestmark = pytest.mark.kernel("7", "none")


def test_the_running_kernel_is_the_one_that_was_chosen(kernel_kind: str) -> None:
    assert os.uname().release == kernels.obtain(kernel_kind).release


def test_sched_ext_is_there_exactly_when_the_kind_promises_it(kernel_kind: str) -> None:
    assert Path("/sys/kernel/sched_ext/state").exists() == kernels.KINDS[kernel_kind].has_sched_ext


def test_the_config_lies_where_libbpf_looks_for_it() -> None:
    config = Path(f"/boot/config-{os.uname().release}")

    assert "CONFIG_BPF=y" in config.read_text().splitlines()


def test_the_guest_cannot_write_to_the_machines_root() -> None:
    """The lower layer is this machine's own disk: it must stay read-only whatever a test does."""
    assert os.geteuid() == 0

    with pytest.raises(OSError, match="Read-only file system"):
        Path("/mnt/lower/written-by-guest").touch()
    remount = ["sh", "-c", "mount -o remount,rw /mnt/lower && touch /mnt/lower/written-by-guest"]
    assert processes.run(remount, check=False).returncode != 0
