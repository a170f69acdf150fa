"""`schedctl switch`: another scheduler in place of the one that runs, which comes back if that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from schedkit.model.host.actions import Host, Known, Refused
from schedkit.model.host.run_stop import After
from schedkit.model.host.switch_reset import Switch, Unchanged, Wanted, free_name, plan_switch
from schedkit.model.trust.verified import signer_of
from schedkit.runtimes.errors import ContainerRuntimeError
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.progress import tell
from schedkit.schedctl.change import lock
from schedkit.schedctl.change.executor import Stage, problem
from schedkit.schedctl.change.labels import OPTIONS
from schedkit.schedctl.change.signals import ended_in_order
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.verbs.machine import launch as launching
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
@click.option(
    "--evict", type=int, default=0, metavar="PID", help="End this process's scheduler, which is not ours."
)
@click.option("--force", is_flag=True, help="Also where Kubernetes has it, or an old one may be left.")
@click.pass_obj
@answering
def command(settings: Settings, evict: int, **wishes: Any) -> Answer:  # noqa: ANN401 - click has checked each of them
    """Replace the scheduler that runs; if the new one is not attached, the old one comes back."""
    asked = launching.understand(settings, **wishes)
    with ended_in_order() as done:
        return _switch(settings, asked, evict, done)


def _switch(settings: Settings, asked: Asked, evict: int, done: Callable[[], None]) -> Answer:
    order = asked.order

    def plan(host: Host, wanted: Wanted = _ANYTHING) -> Switch | Unchanged | Refused:
        return plan_switch(host, wanted, after=order.after, evicted=evict, is_forced=order.force)

    launch = launching.prepare_launch(settings, asked, "switch to", plan)
    wanted = Wanted(launch.driver, str(launch.ready.found.reference.digest), launch.spec.labels[OPTIONS])
    with lock.exclusive(wiring.LOCK, f"switch to {launch.spec.name}", tell=tell):
        host = launch.host()
        decision = plan(host, wanted)
        if isinstance(decision, Refused):
            raise problem(decision)
        if isinstance(decision, Unchanged):
            return _unchanged(launch, host, decision.container)
        stage = launch.stage(free_name(launch.spec.name, host))
        stage.play(decision.steps, way_back=decision.way_back, done=done)
        left = list(_clear_up(stage, decision))
    if order.after is After.FOLLOW:
        launching.follow(stage, launch.runtimes[launch.driver])
    return _changed(launch, stage, decision, left)


def _clear_up(stage: Stage, decision: Switch) -> Sequence[str]:
    """Remove what was replaced; the switch is done, also when that fails."""
    try:
        for action in decision.afterwards:
            stage.perform(action)
    except ContainerRuntimeError as error:
        return [f"{decision.old} was stopped, but is still there: {error}"]
    return []


def _changed(launch: Launch, stage: Stage, decision: Switch, left: list[str]) -> Answer:
    old, gap = decision.old, stage.gap()
    done = SchedulerSwitched(
        **launching.describe(launch, stage),
        changed=True,
        previous=Predecessor(name=old.name, id=old.id, driver=old.driver) if old else None,
        gap_seconds=round(gap.seconds, 6) if gap else None,
        gap_source=gap.source if gap else None,
    )
    return answer(done, [*launch.warnings, *left])


def _unchanged(launch: Launch, host: Host, container: Known) -> Answer:
    kernel, found, admission = host.observation.kernel, launch.ready.found, launch.ready.admission
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
    runs = f"the kernel runs {done.ops}, of container {done.name}"
    if not done.changed:
        return f"nothing to do: {runs}, with the same image and options"
    if not done.confirmed:
        return f"started {done.name}; `schedctl status` says whether the kernel runs it"
    instead = f", instead of {done.previous.name}" if done.previous else "; nothing of ours ran before"
    bound = "at most " if done.gap_source == "observation" else ""
    gap = (
        "" if done.gap_seconds is None else f"; in between it ran its own for {bound}{done.gap_seconds:.2f} s"
    )
    return f"{runs}{instead}{gap}"
