"""`schedctl logs`: what a scheduler wrote, in the order in which it wrote it."""

from __future__ import annotations

import click

from schedkit.model.host.run_stop_plans import choose
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.scheduler_output import forward
from schedkit.schedctl.change import snapshot
from schedkit.schedctl.completions import complete_containers
from schedkit.schedctl.problems.elsewhere import no_runtime
from schedkit.schedctl.problems.problem import telling_problems
from schedkit.schedctl.problems.refusals import decided
from schedkit.schedctl.settings.table import Settings


@click.command()
@click.argument("container", metavar="[ID|NAME]", required=False, shell_complete=complete_containers)
@click.option("-f", "--follow", is_flag=True, help="Continue to show output until the scheduler ends.")
@click.option(
    "-n", "--tail", type=click.IntRange(min=0), help="Show only this number of lines, counted from the end."
)
@click.pass_obj
def command(settings: Settings, container: str | None, tail: int | None, *, follow: bool) -> None:
    """Show a scheduler's output; without an argument, the output of the only scheduler."""
    runtimes = wiring.runtimes(settings)
    with telling_problems():
        look = snapshot.look(wiring.kernel(), runtimes)
        if look.containers is None:
            raise no_runtime(wiring.ROOT, look.problems)
        chosen = decided(choose(look, container))
        forward(runtimes[chosen.driver].logs(chosen.id, tail=tail, follow=follow))
