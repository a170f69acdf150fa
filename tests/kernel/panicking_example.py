"""Not collected by itself: tests/contract/test_vm.py runs it to see how a dead kernel is reported."""

from __future__ import annotations

from pathlib import Path


def test_before_the_panic() -> None:
    assert Path("/sys/kernel/sched_ext/state").read_text().strip() == "disabled"


def test_that_panics_the_kernel() -> None:
    Path("/proc/sysrq-trigger").write_text("c")


def test_after_the_panic() -> None:
    """Never gets a kernel to run on."""
