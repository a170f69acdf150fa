"""`schedctl switch`: another scheduler in place of the one that runs, which comes back if that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from schedkit.model.host.actions import Plan, Refused
from schedkit.model.host.containers import OPTIONS_LABEL, Container
from schedkit.model.host.run_stop_plans import After
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.switch_gap import Gap
from schedkit.model.host.switch_reset_plans import Unchanged, Wanted, plan_switch
from schedkit.model.trust.verified import signer_of
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.progress import tell
from schedkit.schedctl.change import lock
from schedkit.schedctl.change.executor import Outcome
from schedkit.schedctl.change.signals import ended_in_order
from schedkit.schedctl.problems.refusals import problem
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.verbs.machine import launch as launching
from schedkit.schedctl.verbs.machine.eviction import evict_option
from schedkit.schedctl.verbs.machine.launch import Asked, Launch, SchedulerRun, launch_options

_ANYTHING = Wanted("", "", "")  # before it is known what the name means, no container can be that


class Predecessor(msgspec.Struct, frozen=True, kw_only=True):
    """A container of ours that is gone."""

    name: str
    id: str
    driver: str


class SchedulerSwitched(SchedulerRun, frozen=True, kw_only=True):
    """The container that runs, and what it took the place of."""

    changed: bool  # false: exactly this ran already, and nothing was done
    previous: Predecessor | None  # null: nothing of ours was replaced
    gap_seconds: float | None  # how long the kernel ran its own scheduler in between; null: not known
    gap_source: str | None  # kernel-log, or observation: then it is an upper bound


@click.command()
@launch_options
@evict_option
@click.option(
    "--force",
    is_flag=True,
    help="Act even if Kubernetes owns the scheduler, or a process may still hold an ejected scheduler.",
)
@click.pass_obj
@answering
def command(settings: Settings, evict: int, **wishes: Any) -> Answer:  # noqa: ANN401 - click has checked each of them
    """Replace the running scheduler; if the new one is not attached, the old one comes back."""
    asked = launching.understand(settings, **wishes)
    with ended_in_order() as done:
        return _switch(settings, asked, evict, done)


def _switch(settings: Settings, asked: Asked, evict: int, done: Callable[[], None]) -> Answer:
    order = asked.order

    def plan(host: Snapshot, wanted: Wanted = _ANYTHING) -> Plan | Unchanged | Refused:
        return plan_switch(host, wanted, after=order.after, evicted=evict, is_forced=order.force)

    launch = launching.prepare_launch(settings, asked, "switch to", plan)
    wanted = Wanted(
        launch.driver, str(launch.ready.found.reference.digest), launch.spec.labels[OPTIONS_LABEL]
    )
    with lock.exclusive(wiring.LOCK, f"switch to {launch.spec.name}", tell=tell):
        host = launch.look()
        decision = plan(host, wanted)
        if isinstance(decision, Refused):
            raise problem(decision)
        if isinstance(decision, Unchanged):
            return _unchanged(launch, host, decision.container)
        change = launching.carry_out(launch, decision, host, done)
    if order.after is After.FOLLOW:
        launching.follow(change)
    return _changed(launch, decision.replaced, change.outcome)


def _changed(launch: Launch, old: Container | None, outcome: Outcome) -> Answer:
    gap_seconds, gap_source = _told(outcome.gap)
    done = SchedulerSwitched(
        **launching.describe(launch, outcome),
        changed=True,
        previous=Predecessor(name=old.name, id=old.id, driver=old.driver) if old else None,
        gap_seconds=gap_seconds,
        gap_source=gap_source,
    )
    return answer(done, [*launch.warnings, *outcome.left])


def _told(gap: Gap | None) -> tuple[float | None, str | None]:
    """How long the kernel ran its own scheduler in between, and who says so."""
    return (round(gap.seconds, 6), gap.source) if gap else (None, None)


def _unchanged(launch: Launch, host: Snapshot, container: Container) -> Answer:
    kernel, found, admission = host.kernel, launch.ready.found, launch.ready.admission
    done = SchedulerSwitched(
        name=container.name,
        id=container.id,
        driver=container.driver,
        image=str(found.reference),
        digest=container.digest,
        signer=signer_of(admission),
        confirmed=True,
        ops=kernel.ops,
        enable_seq=kernel.enable_seq,
        changed=False,
        previous=None,
        gap_seconds=None,
        gap_source=None,
    )
    return answer(done, launch.warnings)


def answer(done: SchedulerSwitched, warned: Sequence[str]) -> Answer:
    """What runs, what it took the place of, and what that cost."""
    return Answer(done, [_words(done)], warnings=warned)


def _words(done: SchedulerSwitched) -> str:
    runs = f"the kernel runs {done.ops} from container {done.name}"
    if not done.changed:
        return f"nothing to do: {runs}, with the same image and options"
    if not done.confirmed:
        return f"started {done.name}; `schedctl status` says whether the kernel runs it"
    instead = f", instead of {done.previous.name}" if done.previous else "; schedkit ran nothing before"
    bound = "at most " if done.gap_source == "observation" else ""
    gap = (
        ""
        if done.gap_seconds is None
        else f"; in between it ran its own scheduler for {bound}{done.gap_seconds:.2f} s"
    )
    return f"{runs}{instead}{gap}"
