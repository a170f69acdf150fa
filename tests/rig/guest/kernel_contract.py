"""What a kernel behind the port promises, written once: for that of a guest, and for the fake of unit tests.

A test module inherits `KernelContract` and has a fixture `machine`. Not asked for here are

* the states between two others, and several processes that share a link: the fake does not have them
* pinned links, which the fake has (`Hold.NOBODY` when it attaches) and no program of the rig makes:
  `tests/kernel/test_ownership.py` proves what kernels do with them
* a number that another process has got anew, which no guest gives at will: of `/proc`, it is shown by
  `tests/unit/kernel/test_processes.py`, and of the fake by `tests/unit/schedctl/change/test_kernel_port.py`
* how long the grace of `end_process` is: the fake's processes end at once
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import pytest

from rig.guest import schedulers
from schedkit.model.host.containers import Container, ContainerState
from schedkit.model.host.holders import Leftovers, leftovers
from schedkit.model.host.owners import Owner, OwnerKind
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.kernel.log import Exit, ExitKind
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.schedctl.change.kernel_port import Kernel
from schedkit.schedctl.problems.problem import Problem

T = TypeVar("T")
TIMEOUT_S = 60  # by the kernel's own clock
_POLL_S = 0.05
_BEGINNING_S = 3  # more than a beginning may be told too early, as the clocks of a machine differ


class Machine(Protocol):
    """A kernel, and what happens to it that is not done through the port."""

    @property
    def kernel(self) -> Kernel:
        """The port."""

    def begin(self, scheduler: str) -> int:
        """Start one of the rig's programs, which attaches its scheduler a moment later; its number."""

    def command(self, pid: int) -> str:
        """Of a program that was started, as the port names it."""

    def has_ended(self, pid: int) -> bool:
        """Whether a program that was started is gone."""

    def kill(self, pid: int) -> None:
        """End a program, and whatever the kernel ends with it."""

    def stall(self, pid: int) -> None:
        """Let a scheduler misbehave until the kernel ejects it."""

    def press_sysrq(self) -> None:
        """Somebody ejects what is attached, whosever it is."""


def until(kernel: Kernel, probe: Callable[[], T | None], what: str) -> T:
    """The first true answer."""
    deadline = kernel.now() + TIMEOUT_S
    while not (answer := probe()):
        assert kernel.now() < deadline, f"{what}: not so after {TIMEOUT_S} s, last seen {kernel.state()}"
        kernel.sleep(_POLL_S)
    return answer


def attach(machine: Machine, scheduler: str) -> int:
    """The number of its program, as soon as the kernel runs it and has counted it."""
    before = attachments(machine.kernel)
    pid = machine.begin(scheduler)
    await_attached(machine.kernel, scheduler, attachments_before=before)
    return pid


def await_attached(kernel: Kernel, scheduler: str, *, attachments_before: int) -> KernelState:
    def attached() -> KernelState | None:
        seen = kernel.state()
        # the kernel says `enabled` a moment before it raises the count
        is_there = seen.state is State.ENABLED and (seen.enable_seq or 0) > attachments_before
        return seen if is_there and seen.ops == ops_of(scheduler) else None

    return until(kernel, attached, f"the kernel runs {scheduler}")


def await_disabled(kernel: Kernel) -> None:
    until(kernel, lambda: kernel.state().state is State.DISABLED, "the kernel runs its own scheduler")


def attachments(kernel: Kernel) -> int:
    """How many schedulers have been attached since boot."""
    count = kernel.state().enable_seq
    assert count is not None
    return count


def ops_of(scheduler: str) -> str:
    return schedulers.catalog()[scheduler].ops_name


def end_told(kernel: Kernel, after_seq: int) -> Exit:
    """The only end of a scheduler since then; the log may be a moment behind the state."""
    (end,) = until(kernel, lambda: kernel.log(after_seq=after_seq).exits, "the log tells an end")
    return end


def holder(kernel: Kernel) -> tuple[Hold, int | None]:
    proof = kernel.observe().proof
    return proof.hold, proof.process.pid if proof.process else None


def left(kernel: Kernel) -> Leftovers:
    seen = kernel.observe(is_thorough=True)
    assert seen.held is not None
    return leftovers(seen.kernel, seen.held)


class KernelContract:
    # Nothing is attached

    def test_without_a_scheduler_there_is_no_name_no_counter_and_no_holder(self, machine: Machine) -> None:
        seen = machine.kernel.observe()

        assert (seen.kernel.state, seen.kernel.ops, seen.kernel.problem) == (State.DISABLED, None, "")
        assert dict(seen.kernel.events) == {}
        assert (seen.proof, seen.held, seen.owner) == (Proof(Hold.NOTHING), None, Owner(OwnerKind.NONE))
        assert left(machine.kernel).are_excluded

    def test_where_nothing_is_attached_an_ejection_has_nothing_to_do(self, machine: Machine) -> None:
        log_seq = machine.kernel.log().last_seq

        machine.kernel.eject(is_blind=False)
        machine.kernel.eject(is_blind=True)

        assert machine.kernel.state().state is State.DISABLED
        assert machine.kernel.log(after_seq=log_seq).exits == ()

    # Attaching

    def test_an_attachment_is_announced_counted_once_and_logged_once(self, machine: Machine) -> None:
        kernel, before = machine.kernel, attachments(machine.kernel)
        log_seq, began = kernel.log().last_seq, kernel.now()

        with kernel.hearing(poll_s=TIMEOUT_S) as wait:  # whoever does not hear comes too late
            machine.begin("fifo")
            wait(TIMEOUT_S)
        assert kernel.state().state is not State.DISABLED
        assert kernel.now() - began < TIMEOUT_S
        seen = await_attached(kernel, "fifo", attachments_before=before)

        assert (seen.state, seen.ops, seen.enable_seq) == (State.ENABLED, "rig_fifo", before + 1)
        until(kernel, lambda: kernel.log(after_seq=log_seq).attachments, "the log tells an attachment")
        logged = kernel.log(after_seq=log_seq)
        assert [each.ops for each in logged.attachments] == ["rig_fifo"]
        assert (logged.exits, logged.problem, logged.last_seq > log_seq) == ((), "", True)
        assert kernel.log(after_seq=logged.last_seq).attachments == ()

    def test_the_counters_of_an_attached_scheduler_rise_from_look_to_look(self, machine: Machine) -> None:
        kernel = machine.kernel
        attach(machine, "fifo")
        first = kernel.state()

        def differs() -> KernelState | None:
            seen = kernel.state()
            return seen if seen.events != first.events else None

        later = until(kernel, differs, "a counter has changed")

        assert first.events
        assert all(later.events[name] >= count for name, count in first.events.items())
        assert later._replace(events={}) == first._replace(events={})

    def test_a_program_began_before_its_scheduler_was_attached_and_after_what_was_there_earlier(
        self, machine: Machine
    ) -> None:
        kernel, log_seq = machine.kernel, machine.kernel.log().last_seq
        machine.kill(attach(machine, "fifo"))
        await_disabled(kernel)
        kernel.sleep(_BEGINNING_S)

        pid = attach(machine, "fifo")

        began_us = kernel.began_us(Container("c1", "fifo", "podman", ContainerState.RUNNING, pid))
        assert began_us is not None
        logged = until(kernel, lambda: kernel.log(after_seq=log_seq).attachments[1:], "the log tells both")
        assert end_told(kernel, log_seq).time_us < began_us <= logged[0].time_us
        assert kernel.began_us(Container("c2", "gone", "podman", ContainerState.EXITED)) is None

    # Who holds it, and ends it

    def test_the_process_with_the_link_holds_it_and_takes_it_along(self, machine: Machine) -> None:
        kernel, before = machine.kernel, attachments(machine.kernel)
        pid = attach(machine, "fifo")
        log_seq, life = kernel.log().last_seq, kernel.life(pid)

        seen = kernel.observe()

        assert (seen.proof.hold, seen.proof.reason, seen.proof.map_id is None) == (Hold.LINK, "", False)
        assert seen.proof.process is not None
        assert (seen.proof.process.pid, seen._replace(containers=()).owner.kind) == (pid, OwnerKind.FOREIGN)
        assert (life.is_going_on, kernel.life(None).is_going_on) == (True, False)

        kernel.end_process(seen.proof.process, grace_s=TIMEOUT_S)

        until(kernel, lambda: machine.has_ended(pid), "its process is gone")
        await_disabled(kernel)
        end = end_told(kernel, log_seq)
        assert (end.ops, end.kind, end.is_failure, end.message) == ("rig_fifo", ExitKind.UNREG, False, "")
        assert (life.is_going_on, attachments(kernel)) == (False, before + 1)
        assert left(kernel).are_excluded
        kernel.end_process(seen.proof.process, grace_s=TIMEOUT_S)  # it may be gone already

    def test_a_process_that_holds_nothing_is_not_ended(self, machine: Machine) -> None:
        """Its number may be that of a holder which is gone, also where both run the same program."""
        pid = machine.begin("slow")

        machine.kernel.end_process(Process(pid, command=machine.command(pid)), grace_s=TIMEOUT_S)

        assert (machine.has_ended(pid), machine.kernel.life(pid).is_going_on) == (False, True)

    def test_a_holder_is_not_ended_in_place_of_another_process(self, machine: Machine) -> None:
        """Its number may be that of a holder which is gone."""
        pid = attach(machine, "fifo")

        machine.kernel.end_process(Process(pid, command="another"), grace_s=TIMEOUT_S)

        assert (machine.has_ended(pid), holder(machine.kernel)) == (False, (Hold.LINK, pid))

    # Ejecting

    def test_what_a_process_holds_is_ejected_only_blindly_and_the_process_stays(
        self, machine: Machine
    ) -> None:
        kernel = machine.kernel
        pid, log_seq = attach(machine, "lingering"), kernel.log().last_seq

        with pytest.raises(Problem, match="a process may hold it"):
            kernel.eject(is_blind=False)
        assert holder(kernel) == (Hold.LINK, pid)
        kernel.eject(is_blind=True)

        await_disabled(kernel)
        end = end_told(kernel, log_seq)
        assert (end.ops, end.kind, end.is_wanted_by_a_human) == ("rig_lingering", ExitKind.SYSRQ, True)
        assert (kernel.state().ops, dict(kernel.state().events)) == (None, {})
        assert [each.pid for each in left(kernel).processes] == [pid]
        assert (machine.has_ended(pid), kernel.life(pid).is_going_on) == (False, True)

    def test_an_orphan_is_ejected_in_order_and_leaves_nothing(self, machine: Machine) -> None:
        kernel = machine.kernel
        pid, log_seq = attach(machine, "orphan"), kernel.log().last_seq
        assert holder(kernel) == (Hold.MAP, pid)
        with pytest.raises(Problem, match="a process may hold it"):
            kernel.eject(is_blind=False)
        assert holder(kernel) == (Hold.MAP, pid)
        machine.kill(pid)
        assert holder(kernel) == (Hold.NOBODY, None)
        assert kernel.observe().owner.kind is OwnerKind.ORPHAN

        kernel.eject(is_blind=False)

        await_disabled(kernel)
        assert end_told(kernel, log_seq).kind is ExitKind.UNREG
        until(kernel, lambda: left(kernel).are_excluded, "nothing is left of it")

    def test_what_sysrq_leaves_of_an_orphan_is_removed_while_nothing_is_attached(
        self, machine: Machine
    ) -> None:
        kernel = machine.kernel
        machine.kill(attach(machine, "orphan"))
        machine.press_sysrq()
        await_disabled(kernel)
        (remains,) = left(kernel).registered
        successor = attach(machine, "fifo")

        kernel.unregister(remains)

        assert (remains.ops, left(kernel).registered) == ("rig_orphan", (remains,))
        assert holder(kernel) == (Hold.LINK, successor)
        machine.kill(successor)
        await_disabled(kernel)
        kernel.unregister(remains)
        until(kernel, lambda: left(kernel).are_excluded, "nothing is left of it")
        kernel.unregister(remains)  # it may be gone already

    def test_a_stall_ends_with_the_kernels_own_scheduler_and_is_told_as_a_failure(
        self, machine: Machine
    ) -> None:
        kernel, before = machine.kernel, attachments(machine.kernel)
        log_seq = kernel.log().last_seq
        pid = attach(machine, "staller")
        (attached,) = until(kernel, lambda: kernel.log(after_seq=log_seq).attachments, "the log tells it")

        machine.stall(pid)

        end = end_told(kernel, log_seq)
        assert 0 < attached.time_us < end.time_us
        assert (end.ops, end.kind, end.is_failure) == ("rig_staller", ExitKind.ERROR_STALL, True)
        assert "failed to run for" in end.message
        await_disabled(kernel)
        assert (kernel.state().ops, attachments(kernel)) == (None, before + 1)
