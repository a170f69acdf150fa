"""What the product reads from a real kernel is what the rig sees there, and what the kernel has just done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import polling
from rig.guest import kernels, schedext, schedulers
from rig.guest.schedext import Launcher
from schedkit.kernel import kmsg, machine, sysfs
from schedkit.kernel.uevents import Listener
from schedkit.model.kernel.log import Announcement, Change, Exit, ExitKind, LogReading
from schedkit.model.kernel.sched_ext import State
from schedkit.model.readiness.facts import Facts, KernelFacts
from schedkit.model.readiness.table import examine

pytestmark = pytest.mark.kernel("7")

ROOT = Path("/")
EXIT_TIMEOUT_S = 60


def prepare_on_host() -> None:
    schedulers.built()


@pytest.fixture
def seq() -> int:
    """The number of the log's last record before the test."""
    reading = kmsg.read(ROOT)
    assert reading.problem == ""
    return reading.last_seq


@pytest.fixture
def whole_machine() -> Iterator[None]:
    """CPU 1 is back when the test is over."""
    yield
    schedext.set_cpu_online(1, online=True)


def last_exit(seq: int) -> Exit:
    """The only exit since then; the log may be a moment behind the state."""
    reading: LogReading = polling.until(
        lambda: found if (found := kmsg.read(ROOT, after_seq=seq)).exits else None, "an exit is in the log"
    )
    (end,) = reading.exits
    return end


# The state


def test_an_idle_kernel_says_disabled_and_names_nothing() -> None:
    reading = sysfs.read(ROOT)

    assert (reading.state, reading.ops, reading.problem) == (State.DISABLED, None, "")
    assert reading.enable_seq == schedext.enable_seq()
    assert reading.hotplug_seq is not None
    assert reading.nr_rejected == 0


def test_an_attached_scheduler_is_read_with_its_counters(launcher: Launcher) -> None:
    before = sysfs.read(ROOT)
    launcher.attach("fifo")

    reading = sysfs.read(ROOT)

    assert (reading.state, reading.ops, reading.switch_all) == (State.ENABLED, "rig_fifo", True)
    assert reading.enable_seq == (before.enable_seq or 0) + 1
    assert "SCX_EV_BYPASS_ACTIVATE" in reading.events


def test_partial_mode_is_read(launcher: Launcher) -> None:
    launcher.attach("partial")

    assert sysfs.read(ROOT).switch_all is False


def test_each_of_the_four_states_is_seen_as_a_scheduler_comes_and_goes(launcher: Launcher) -> None:
    """Passing through may take only a moment, so that one coming and going may not be enough."""
    seen: set[State] = set()
    for _ in range(10):
        fifo = launcher.start("fifo")
        seen |= states_until(State.ENABLED)
        fifo.send(signal.SIGTERM)
        seen |= states_until(State.DISABLED)
        fifo.wait(EXIT_TIMEOUT_S)
        if State.ENABLING in seen and State.DISABLING in seen:
            break

    assert seen == {State.DISABLED, State.ENABLING, State.ENABLED, State.DISABLING}


def states_until(last: State) -> set[State]:
    seen: set[State] = set()

    def is_reached() -> bool:
        seen.add(sysfs.read(ROOT).state)
        return last in seen

    polling.until(is_reached, f"the kernel says {last}", timeout_s=EXIT_TIMEOUT_S, poll_s=0)
    return seen


# How schedulers end


def test_a_stall_is_in_the_log_with_its_victim(launcher: Launcher, seq: int) -> None:
    staller = launcher.attach("staller")
    staller.send(signal.SIGUSR1)
    staller.wait(EXIT_TIMEOUT_S)

    end = last_exit(seq)

    assert (end.ops, end.kind, end.reason) == ("rig_staller", ExitKind.ERROR_STALL, "runnable task stall")
    assert end.message.startswith("victim[")
    assert "failed to run for" in end.message


def test_a_humans_sysrq_is_in_the_log(launcher: Launcher, seq: int) -> None:
    fifo = launcher.attach("fifo")
    schedext.eject()
    fifo.wait(EXIT_TIMEOUT_S)

    assert last_exit(seq).is_wanted_by_a_human


@pytest.mark.usefixtures("whole_machine")
def test_an_end_by_cpu_hotplug_is_in_the_log(launcher: Launcher, seq: int) -> None:
    before = sysfs.read(ROOT).hotplug_seq or 0
    fifo = launcher.attach("fifo")
    schedext.set_cpu_online(1, online=False)
    fifo.wait(EXIT_TIMEOUT_S)

    assert last_exit(seq).kind is ExitKind.UNREG_KERN
    assert sysfs.read(ROOT).hotplug_seq == before + 1


def test_a_failed_init_is_in_the_log_with_the_kernels_words(launcher: Launcher, seq: int) -> None:
    launcher.start("bad_init").wait(EXIT_TIMEOUT_S)

    end = last_exit(seq)

    assert (end.ops, end.kind) == ("rig_bad_init", ExitKind.ERROR)
    assert "ops.init() failed (-19)" in end.message


def test_an_ordinary_end_is_in_the_log_and_no_failure(launcher: Launcher, seq: int) -> None:
    fifo = launcher.attach("fifo")
    fifo.send(signal.SIGTERM)
    fifo.wait(EXIT_TIMEOUT_S)

    end = last_exit(seq)

    assert (end.kind, end.is_failure, end.message) == (ExitKind.UNREG, False, "")


def test_coming_and_going_is_announced(launcher: Launcher) -> None:
    with Listener() as listener:
        fifo = launcher.attach("fifo")
        fifo.send(signal.SIGTERM)
        heard = listener.announcements(timeout_s=EXIT_TIMEOUT_S)

        assert next(heard) == Announcement(Change.ATTACHED, "rig_fifo")
        gone = next(heard)

    assert gone.change is Change.DETACHED
    assert gone.ops in {"rig_fifo", None}


# What the kernel offers


@pytest.fixture(scope="module")
def facts() -> KernelFacts:
    """All that the machine says about its kernel; reading it takes seconds in a guest."""
    return machine.observe(ROOT)


def test_the_running_kernels_functions_are_described_as_well_as_its_kind_promises(
    facts: KernelFacts, kernel_kind: str
) -> None:
    assert facts.btf is not None
    assert facts.btf.problem == ""
    assert "scx_bpf_dsq_insert" in facts.btf.kfuncs
    assert "scx_bpf_dsq_insert" in facts.symbols
    if kernels.obtain(kernel_kind).note is None:
        assert facts.btf.malformed == ()
        assert facts.btf.missing(facts.symbols) == ()


def test_a_guest_is_ready_but_for_its_container_runtime(facts: KernelFacts) -> None:
    findings = {finding.id: finding for finding in examine(Facts(facts))}

    assert facts.config is not None
    assert facts.config.path == f"/boot/config-{os.uname().release}"
    assert [each.detail for each in findings.values() if each.is_blocking] == []
    assert findings["kernel.config"].status.value == "pass"
    assert findings["kernel.config_location"].status.value == "pass"
    assert findings["caps.cap_sys_admin"].status.value == "pass"
