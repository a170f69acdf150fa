"""What a guest's console tells about its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.guest import vm

LATE = "answers, but a command in it did not end within 60 s"


@pytest.mark.parametrize(
    "line",
    [
        "[   12.1] Kernel panic - not syncing: sysrq triggered crash",
        "[   12.1] Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP",
        "[   12.1] kernel BUG at kernel/sched/ext.c:1234!",
    ],
    ids=["panic", "oops", "bug"],
)
def test_a_kernel_that_died_is_called_dead_whatever_it_looked_like(line: str) -> None:
    assert vm.verdict(f"booting\n{line}\n", LATE) == "the kernel panicked"


@pytest.mark.parametrize(
    "line",
    [
        "[   60.2] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [swapper/1:0]",
        "[   60.2] watchdog: Watchdog detected hard LOCKUP on cpu 0",
        "[   60.2] BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!",
        "[   60.2] rcu: INFO: rcu_preempt self-detected stall on CPU",
        "[   60.2] INFO: task kworker/0:1:10 blocked for more than 120 seconds.",
    ],
    ids=["soft", "hard", "workqueue", "rcu", "task"],
)
def test_a_lockup_is_no_panic_but_it_is_told(line: str) -> None:
    """Emulation on a busy machine makes kernels complain of lockups that are mere slowness."""
    assert vm.verdict(f"{line}\n", LATE) == f"the guest {LATE}; its kernel complains of a lockup"


def test_a_console_without_complaints_leaves_the_word_to_what_was_seen() -> None:
    assert vm.verdict("booting\nlogin:\n", "ended") == "the guest ended"


def test_a_guest_that_wrote_nothing_is_not_given_an_empty_log() -> None:
    assert vm.last_words("\n \n", Path("/logs/guest.log")) == "it wrote nothing to its console"


def test_the_end_of_a_console_comes_without_the_empty_lines_after_it() -> None:
    assert (
        vm.last_words("one\ntwo\n\n\n", Path("/logs/guest.log")) == "console log: /logs/guest.log\none\ntwo"
    )
