"""`schedctl run`: bring a scheduler into the kernel, and say so only when the kernel does.

When it gives up on the kernel is decided in `model.host.confirmation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from schedkit.model.host.actions import Plan, Refused
from schedkit.model.host.run_stop_plans import After, plan_run
from schedkit.model.host.snapshot import Snapshot
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.progress import tell
from schedkit.schedctl.change import lock
from schedkit.schedctl.change.signals import ended_in_order
from schedkit.schedctl.problems.refusals import decided
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.verbs.machine import launch as launching
from schedkit.schedctl.verbs.machine.launch import Asked, SchedulerRun, launch_options


@click.command()
@launch_options
@click.option("--force", is_flag=True, help="Try even if the kernel already runs a scheduler.")
@click.pass_obj
@answering
def command(settings: Settings, **wishes: Any) -> Answer:  # noqa: ANN401 - click has checked each of them
    """Run a scheduler: resolve, verify, load, start, and wait until the kernel confirms it."""
    asked = launching.understand(settings, **wishes)
    with ended_in_order() as done:
        return _run(settings, asked, done)


def _run(settings: Settings, asked: Asked, done: Callable[[], None]) -> Answer:
    order = asked.order

    def plan(host: Snapshot) -> Plan | Refused:
        return plan_run(host, after=order.after, is_forced=order.force)

    launch = launching.prepare_launch(settings, asked, "run", plan)
    with lock.exclusive(wiring.LOCK, f"run {launch.spec.name}", tell=tell):
        host = launch.look()
        change = launching.carry_out(launch, decided(plan(host)), host, done)
    if order.after is After.FOLLOW:
        launching.follow(change)
    return answer(SchedulerRun(**launching.describe(launch, change.outcome)), launch.warnings)


def answer(done: SchedulerRun, warned: list[str]) -> Answer:
    """What runs, and whether the kernel confirmed it."""
    if done.confirmed:
        words = f"the kernel runs {done.ops} from container {done.name}"
    else:
        words = f"started {done.name}; `schedctl status` says whether the kernel runs it"
    return Answer(done, [words], warnings=warned)
