"""Waiting until a machine is as it should be, or the time for that is over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from schedkit.model.host.actions import AwaitFree
from schedkit.model.host.confirmation import Course, FailureFacts, explain_failure, judge_start
from schedkit.model.host.containers import Container
from schedkit.model.host.owners import attribute
from schedkit.model.host.release import has_stayed, is_free, is_released, left_behind, outlives
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.time_limits import EXIT_TIMEOUT_S, RELEASE_TIMEOUT_S
from schedkit.model.kernel.log import LogReading, last_words, unwanted_exits
from schedkit.model.kernel.sched_ext import State
from schedkit.runtimes.errors import ContainerRuntimeError
from schedkit.schedctl.change.kernel_port import Kernel, Life
from schedkit.schedctl.change.machine import Machine
from schedkit.schedctl.change.why_detached import written
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.problems.refusals import problem

CLEAR_UP = "`schedctl status` says more; `schedctl reset` clears up"
_POLL_S, _SHORT_POLL_S = 0.05, 0.01


def until_attached(machine: Machine, container: Container, *, timeout_s: float, log_seq: int) -> Snapshot:
    """The look that proves the kernel to run the container's scheduler; why it does not is a problem."""
    machine.tell("waiting for the kernel")
    life, deadline = machine.kernel.life(container.pid), machine.kernel.now() + timeout_s
    course, seen = _look(machine.kernel, container, life, deadline)
    while course is Course.WAITING:
        machine.kernel.sleep(_POLL_S)
        course, seen = _look(machine.kernel, container, life, deadline)
    if course is not Course.ATTACHED:
        facts = _facts(machine, container, course, seen, log_seq)
        raise problem(explain_failure(container.name, course, facts, timeout_s=timeout_s))
    return seen


def _look(kernel: Kernel, container: Container, life: Life, deadline: float) -> tuple[Course, Snapshot]:
    # in this order: what lives now may have attached something by the time the kernel is asked
    is_alive = life.is_going_on
    seen = kernel.observe()
    is_over = kernel.now() >= deadline
    # the number of one that is gone may be a stranger's by now
    one = container if is_alive else container._replace(pid=None)
    return judge_start(seen, one, is_alive=is_alive, is_over=is_over), seen


def _facts(
    machine: Machine, container: Container, course: Course, seen: Snapshot, log_seq: int
) -> FailureFacts:
    runtime, ended = machine.of(container), None
    # neither who removed it nor a runtime in trouble takes the kernel's words along
    with suppress(ContainerRuntimeError):
        ended = runtime.wait(container.id, timeout_s=EXIT_TIMEOUT_S) if course is Course.ENDED else None
    # what was stopped for this one has left its end in the log, too
    words = _words(unwanted_exits(machine.kernel.log(after_seq=log_seq)))
    return FailureFacts(str(ended or ""), words, written(runtime, container.id), attribute(seen.proof, []))


def _words(log: LogReading) -> str:
    return last_words(log) or " / ".join(remark.text for remark in log.remarks)


def until_released(machine: Machine, container: Container) -> None:
    """Until nothing of the container is left in the kernel."""

    def is_reached() -> bool:
        return is_released(machine.kernel.observe(is_thorough=True), container)

    _until(
        is_reached, machine, f"{container.name} was stopped, but the kernel has not released its scheduler"
    )


def until_free(machine: Machine, awaited: AwaitFree) -> None:
    """Until another scheduler may start."""

    def is_reached() -> bool:
        if machine.kernel.state().state is not State.DISABLED:
            # what is still being stopped is attached for a moment only
            return machine.stops.are_over and _has_stayed(machine, awaited)
        seen = machine.kernel.observe(is_thorough=True)
        return is_free(seen.kernel, left_behind(seen), awaited.ignored)

    _until(is_reached, machine, "the kernel is not ready for another scheduler yet")


def _has_stayed(machine: Machine, awaited: AwaitFree) -> bool:
    """Whether waiting is in vain: it could not be stopped. What only the kernel keeps is ejected."""
    seen = machine.kernel.observe()
    if awaited.ended is not None and outlives(seen, awaited.ended):
        machine.tell("ejecting the scheduler: no process holds it any more")
        machine.kernel.eject(is_blind=False)
    return awaited.unless is not None and has_stayed(seen, awaited.unless)


def _until(is_reached: Callable[[], bool], machine: Machine, otherwise: str) -> None:
    deadline = machine.kernel.now() + machine.grace_s + RELEASE_TIMEOUT_S
    while not is_reached():
        machine.stops.hear()
        if machine.kernel.now() > deadline:
            raise Problem(otherwise, why=_holders(machine.kernel), remedy=CLEAR_UP)
        machine.kernel.sleep(_SHORT_POLL_S)


def _holders(kernel: Kernel) -> str:
    seen = kernel.observe(is_thorough=True)
    left = left_behind(seen).processes
    named = "".join(f"; process {each.pid} ({each.command}) holds an old scheduler" for each in left)
    return f"its state is `{seen.kernel.state}`{named}"
