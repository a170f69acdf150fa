"""`schedctl stop`: end a scheduler, and wait until the kernel has let go of it.

How long each of them may take stands in `model.host.time_limits`.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from schedkit.model.host.containers import Container
from schedkit.model.host.release import left_in_kernel
from schedkit.model.host.run_stop_plans import choose, plan_stop
from schedkit.model.kernel.sched_ext import KernelState
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.progress import tell
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.change import lock, snapshot
from schedkit.schedctl.change.machine import Machine
from schedkit.schedctl.change.player import play
from schedkit.schedctl.completions import complete_containers
from schedkit.schedctl.problems.elsewhere import no_runtime
from schedkit.schedctl.problems.refusals import decided, problem
from schedkit.schedctl.settings.flags import option
from schedkit.schedctl.settings.table import Settings


class ContainerStopped(Result, frozen=True, kw_only=True):
    """The container that is gone, and what the kernel runs since."""

    name: str
    id: str
    driver: str
    kernel_state: str
    ops: str | None  # of somebody else's scheduler; null: the kernel runs its own


@click.command()
@click.argument("container", metavar="[ID|NAME]", required=False, shell_complete=complete_containers)
@option("grace_s")
@click.option("--force", is_flag=True, help="Act even if a Kubernetes pod owns the scheduler.")
@click.pass_obj
@answering
def command(settings: Settings, container: str | None, grace_s: float, *, force: bool) -> Answer:
    """Stop a scheduler and remove its container; without an argument, the only scheduler."""
    kernel, runtimes = wiring.kernel(), wiring.runtimes(settings)
    with lock.exclusive(wiring.LOCK, "stop", tell=tell):
        look = snapshot.look(kernel, runtimes)
        if look.containers is None:
            raise no_runtime(wiring.ROOT, look.problems)
        chosen = decided(choose(look, container))
        plan = decided(plan_stop(look, chosen, is_forced=force))
        play(plan, Machine(kernel, runtimes, tell, grace_s))
    seen = snapshot.settled(kernel)
    if remains := left_in_kernel(seen):
        raise problem(remains)
    return answer(chosen, seen.kernel, look.problems)


def answer(chosen: Container, kernel: KernelState, problems: Sequence[str]) -> Answer:
    """What is gone, and what the kernel runs since."""
    stopped = ContainerStopped(
        name=chosen.name, id=chosen.id, driver=chosen.driver, kernel_state=kernel.state.value, ops=kernel.ops
    )
    runs = kernel.ops or "its own scheduler"
    return Answer(stopped, [f"stopped {chosen.name}; the kernel runs {runs}"], warnings=problems)
