"""What each action of `model.host` does to a machine: one case for each, and no state of its own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from schedkit.model.host.actions import (
    Action,
    AwaitAttachment,
    AwaitFree,
    AwaitRelease,
    AwaitReturn,
    Create,
    Discard,
    DiscardNew,
    Eject,
    EjectNew,
    EndProcess,
    Listen,
    ProveKept,
    Refused,
    Restart,
    Start,
    Stop,
    StopNew,
    Unregister,
)
from schedkit.model.host.containers import Container, Exit
from schedkit.model.host.processes import Hold
from schedkit.model.host.release import is_kept, left_in_kernel, plan_ejection
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.switch_gap import Gap
from schedkit.model.host.time_limits import RETURN_TIMEOUT_S
from schedkit.runtimes.containers import Output
from schedkit.runtimes.errors import ContainerRuntimeError
from schedkit.schedctl.change import snapshot, waiting
from schedkit.schedctl.change.machine import Machine
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.problems.refusals import problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a plan, so far or in the end."""

    log_seq: int = -1  # of the kernel's log before anything was done
    created: Container | None = None  # as it was then; names may be given again, and ids are not
    outputs: Iterable[Output] = ()  # what the new container's program writes
    stopped_at: float | None = None  # when something was told to end; None: nothing was
    attached: Snapshot | None = None  # the look that proved the kernel to run what was started
    attached_at: float = 0.0
    gap: Gap | None = None  # None: there was none, as far as was seen
    kept: Snapshot | None = None  # a look that proved that the kernel would keep the new one's scheduler
    exit: Exit | None = None  # how the new container's program ended, after it was cleared up
    remains: Problem | None = None  # what could not be cleared up
    left: tuple[str, ...] = ()  # what could not be removed although the change is done, in sentences

    @property
    def made(self) -> Container:
        """The new container; only what comes after its creation asks for it."""
        if self.created is None:
            raise TypeError("the plan has not created a container yet")
        return self.created


def perform(action: Action, machine: Machine, so_far: Outcome) -> Outcome:  # noqa: C901, PLR0911, PLR0912 - one case for each action
    """Do one thing, and say what is different since."""
    match action:
        case Create():
            return replace(so_far, created=_create(machine))
        case Listen():
            wanted = machine.wanted
            return replace(so_far, outputs=machine.runtime.attach(wanted.spec.name, stdin=wanted.stdin))
        case Start():
            machine.tell(f"starting {machine.wanted.spec.name}")
            machine.runtime.start(machine.wanted.spec.name)
        case AwaitAttachment():
            started = machine.runtime.inspect(machine.wanted.spec.name)
            return _attached(machine, started, machine.wanted.timeout_s, so_far)
        case ProveKept():
            return replace(so_far, kept=_kept(machine, so_far))
        case StopNew():
            return replace(so_far, exit=_stop_new(machine, so_far.made))
        case DiscardNew():
            _discard_new(machine, so_far.made)
        case EjectNew():
            _eject_new(machine, so_far.kept)
        case Stop(container, is_awaited):
            _stop(machine, container, is_awaited=is_awaited)
        case AwaitRelease(container):
            waiting.until_released(machine, container)
        case Discard(container):
            machine.stops.join()
            machine.of(container).remove(container.id)
        case EndProcess(process):
            machine.tell(f"ending process {process.pid} ({process.command})")
            machine.kernel.end_process(process, grace_s=machine.grace_s)
        case Eject(is_blind):
            machine.tell("ejecting the scheduler")
            machine.kernel.eject(is_blind=is_blind)
        case Unregister(scheduler):
            machine.tell(f"removing what {scheduler.ops} has left in the kernel")
            machine.kernel.unregister(scheduler)
        case AwaitFree():
            waiting.until_free(machine, action)
        case Restart(container):
            _restart(machine, container)
        case AwaitReturn(container):
            timeout_s = max(machine.wanted.timeout_s, RETURN_TIMEOUT_S)
            return _attached(machine, machine.of(container).inspect(container.id), timeout_s, so_far)
        case _:
            assert_never(action)
    return so_far


def _create(machine: Machine) -> Container:
    for folder in machine.wanted.folders:
        folder.mkdir(parents=True, exist_ok=True)
    return machine.runtime.create(machine.wanted.spec)


def _attached(machine: Machine, container: Container, timeout_s: float, so_far: Outcome) -> Outcome:
    seen = waiting.until_attached(machine, container, timeout_s=timeout_s, log_seq=so_far.log_seq)
    kept = seen if is_kept(seen, container) else None
    return replace(so_far, attached=seen, attached_at=machine.kernel.now(), kept=kept)


def _stop(machine: Machine, container: Container, *, is_awaited: bool) -> None:
    machine.tell(f"stopping {container.name}")
    machine.stop(container)
    if is_awaited:
        machine.stops.join()


def _restart(machine: Machine, container: Container) -> None:
    machine.stops.join()
    runtime = machine.of(container)
    if not runtime.inspect(container.id).is_running:
        machine.tell(f"starting {container.name} again")
        runtime.start(container.id)


def _kept(machine: Machine, so_far: Outcome) -> Snapshot | None:
    """A look that proves it, now or when the kernel confirmed the new container's scheduler."""
    seen = machine.kernel.observe()
    if seen.proof.hold is not Hold.MAP:  # it ends with its process, or is not proved to be ours
        return so_far.kept
    try:
        found = machine.find(so_far.made)
    except ContainerRuntimeError:
        return so_far.kept
    return seen if found and is_kept(seen, found) else so_far.kept


def _stop_new(machine: Machine, made: Container) -> Exit | None:
    with suppress(ContainerRuntimeError):  # its removal ends it as well
        return machine.of(made).stop(made.id, grace_s=machine.grace_s)
    return None


def _discard_new(machine: Machine, made: Container) -> None:
    try:
        machine.of(made).remove(made.id)
    except ContainerRuntimeError as error:
        what = f"{made.name} may still run and be attached"
        raise Problem(what, why=str(error), remedy=waiting.CLEAR_UP) from error


def _eject_new(machine: Machine, kept: Snapshot | None) -> None:
    seen = snapshot.settled(machine.kernel)
    match plan_ejection(seen, kept):
        case Refused() as left:
            raise problem(left)
        case Eject(is_blind):
            try:
                machine.kernel.eject(is_blind=is_blind)
            except Problem as error:
                named = left_in_kernel(seen)
                raise (and_remains(problem(named), error) if named else error) from error
        case None:
            return


def and_remains(first: Problem, second: Problem) -> Problem:
    """Both, and what to do about the second: it is what somebody finds now."""
    why = "; ".join(filter(None, (first.why, second.why)))
    return Problem(f"{first.what}; {second.what}", why=why, remedy=second.remedy)
