"""`schedctl reset`: back to the kernel's own scheduler, from any state, and told before it is done."""

from __future__ import annotations

import sys

import click

from schedkit.model.host.actions import Plan
from schedkit.model.host.release import left_behind
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.switch_reset_plans import describe, plan_reset
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.progress import tell
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.change import lock, snapshot
from schedkit.schedctl.change.machine import Machine
from schedkit.schedctl.change.player import play
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.problems.refusals import decided
from schedkit.schedctl.settings.flags import option
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.verbs.machine.eviction import evict_option


class SchedulerReset(Result, frozen=True, kw_only=True):
    """What was done, or with `dry_run` would be, and what the kernel runs."""

    steps: tuple[str, ...]  # in words, which may change
    dry_run: bool
    kernel_state: str
    ops: str | None  # null: the kernel runs its own scheduler


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be done, but do nothing.")
@click.option(
    "-y", "--yes", is_flag=True, help="Do not ask for confirmation; needed if there is no terminal."
)
@evict_option
@option("grace_s")
@click.option(
    "--force", is_flag=True, help="Act even if Kubernetes owns the scheduler, or its owner is not known."
)
@click.pass_obj
@answering
def command(
    settings: Settings, evict: int, grace_s: float, *, dry_run: bool, yes: bool, force: bool
) -> Answer:
    """Go back to the kernel's own scheduler.

    It stops schedkit's containers, ejects schedulers without a process, and removes leftovers.
    """
    look = _look(settings)
    plan = decided(plan_reset(look, evicted=evict, is_forced=force))
    if dry_run or not plan.steps:
        return answer(plan, look, is_dry=dry_run)
    for line in describe(plan.steps):
        tell(f"will {line}")
    _confirm(is_sure=yes)
    with lock.exclusive(wiring.LOCK, "reset", tell=tell):
        if plan_reset(_look(settings), evicted=evict, is_forced=force) != plan:
            why = "the machine has changed since the steps were shown"
            raise Problem(
                "nothing was done", why=why, remedy="run `schedctl reset` again to see the new steps"
            )
        play(plan, Machine(wiring.kernel(), wiring.runtimes(settings), tell, grace_s))
    return answer(plan, _look(settings), is_dry=False)


def _look(settings: Settings) -> Snapshot:
    return snapshot.look(wiring.kernel(), wiring.runtimes(settings), is_thorough=True)


def _confirm(*, is_sure: bool) -> None:
    if is_sure:
        return
    if not all(each is not None and each.isatty() for each in (sys.stdin, sys.stderr)):
        why = "there is no terminal to ask for confirmation"
        raise Problem("nothing was done", why=why, remedy="to go on without being asked, add `--yes`")
    if not click.confirm("Go on?", err=True):
        raise Problem("nothing was done", why="you said no")


def answer(plan: Plan, look: Snapshot, *, is_dry: bool) -> Answer:
    """What was done, or would be."""
    kernel, left = look.kernel, left_behind(look)
    done = SchedulerReset(
        steps=describe(plan.steps), dry_run=is_dry, kernel_state=kernel.state.value, ops=kernel.ops
    )
    runs = kernel.ops or "its own scheduler"
    last = f"the kernel runs {runs}" if plan.steps else f"nothing to do: the kernel runs {runs}"
    lines = [*(f"would {step}" for step in done.steps), last] if is_dry else [last]
    pinned = (
        f"a link of {each.ops} is still pinned in a BPF filesystem, usually /sys/fs/bpf: "
        "remove the link's file"
        for each in left.pinned
    )
    return Answer(done, lines, warnings=[*look.problems, *left.gaps, *pinned])
