"""Playing a plan: its steps; after a failure all that undoes them; and what is tidied up at last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from schedkit.model.host.actions import Action, Discard, EndProcess, Plan, Stop
from schedkit.model.host.switch_gap import Gap, measure_gap
from schedkit.runtimes.errors import ContainerRuntimeError
from schedkit.schedctl.change import executor
from schedkit.schedctl.change.executor import Outcome, and_remains
from schedkit.schedctl.change.machine import Machine
from schedkit.schedctl.change.signals import undisturbed
from schedkit.schedctl.problems.problem import Problem, explain


def play(plan: Plan, machine: Machine, *, done: Callable[[], None] = lambda: None) -> Outcome:
    """Do all of it; after a failure the new container is gone again, and what ran before of ours is back.

    `done` is called when all steps are; what interrupts us before leads to a failure, and what does so later
    undoes nothing.
    """
    outcome = Outcome(log_seq=machine.kernel.log().last_seq)
    begun: list[Action] = []
    try:
        for action in plan.steps:
            begun.append(action)
            outcome = _perform(action, machine, outcome)
        done()
    except BaseException as failure:
        with undisturbed():
            _undo(plan, begun, machine, outcome, failure)
        raise
    return _tidied(plan, machine, replace(outcome, gap=_gap(machine, outcome)))


def _perform(action: Action, machine: Machine, so_far: Outcome) -> Outcome:
    """Do one thing; of an end it is noted when it was asked for."""
    if isinstance(action, Stop | EndProcess):
        so_far = replace(so_far, stopped_at=machine.kernel.now())
    return executor.perform(action, machine, so_far)


def _tidied(plan: Plan, machine: Machine, outcome: Outcome) -> Outcome:
    """Remove what was replaced; the change is done, also when that fails."""
    for action in plan.afterwards:
        try:
            executor.perform(action, machine, outcome)
        except ContainerRuntimeError as error:
            what = action.container if isinstance(action, Discard) else plan.replaced
            words = f"{what} was stopped, but is still there: {error}"
            outcome = replace(outcome, left=(*outcome.left, words))
    return outcome


def clear(steps: Sequence[Action], machine: Machine, so_far: Outcome) -> Outcome:
    """Do each of them, whatever became of the ones before; `remains` says what is left all the same.

    A mistake of ours is raised when all were tried.
    """
    mistake: Exception | None = None
    for action in steps:
        try:
            so_far = executor.perform(action, machine, so_far)
        except Problem as error:
            so_far = replace(so_far, remains=and_remains(so_far.remains, error) if so_far.remains else error)
        except Exception as error:  # noqa: BLE001 - it is raised below
            mistake = mistake or error
    if mistake:
        raise mistake
    return so_far


def _undo(
    plan: Plan, begun: Sequence[Action], machine: Machine, so_far: Outcome, failure: BaseException
) -> None:
    """Clear up, and go back; raises what says more than the failure itself."""
    way_back = plan.way_back_from(begun)
    try:
        if so_far.created:
            so_far = clear(plan.on_failure, machine, so_far)
    finally:
        told = _told(failure, so_far.remains, machine)
        if way_back:
            _return(way_back, machine, so_far, told, failure)
    if told and so_far.remains:
        raise told from failure


def _told(failure: BaseException, remains: Problem | None, machine: Machine) -> Problem | None:
    """What to say about the failure, and about what is left of it; None: it speaks for itself."""
    told = explain(failure) if isinstance(failure, Exception) else None
    if told and remains:
        return and_remains(told, remains)
    if remains:
        machine.tell(remains.as_text())
    return told


def _return(
    way_back: Sequence[Action],
    machine: Machine,
    so_far: Outcome,
    told: Problem | None,
    failure: BaseException,
) -> None:
    """Go back to what ran before; what is told about the failure says how that went."""
    machine.tell("going back to the previous scheduler")
    try:
        for action in way_back:
            so_far = executor.perform(action, machine, so_far)
    except Exception as error:
        first = told or Problem("the switch was interrupted")
        raise _without_return(first, explain(error), so_far.remains) from error
    back = f"the kernel runs {so_far.attached.kernel.ops if so_far.attached else ''} again"
    if told:
        gap = _gap(machine, so_far)
        after = f", after {gap.seconds:.2f} s" if gap else ""
        raise Problem(f"{told.what}; {back}{after}", why=told.why, remedy=told.remedy) from failure
    machine.tell(back)


def _without_return(first: Problem, second: Problem | None, remains: Problem | None) -> Problem:
    """What to say when a switch failed, and the way back as well."""
    also = ": ".join(filter(None, (second.what, second.why))) if second else "of an unexpected error"
    return Problem(
        f"{first.what}; and the previous scheduler did not come back",
        why="; ".join(filter(None, (first.why, f"it did not come back because {also}"))),
        remedy=remains.remedy
        if remains
        else "`schedctl status` shows what runs now; `schedctl run NAME` starts a scheduler",
    )


def _gap(machine: Machine, outcome: Outcome) -> Gap | None:
    """None: there was none, as far as was seen."""
    if outcome.attached is None or outcome.stopped_at is None:
        return None
    log, ops = machine.kernel.log(after_seq=outcome.log_seq), outcome.attached.kernel.ops or ""
    return measure_gap(log, ops, observed_s=outcome.attached_at - outcome.stopped_at)
