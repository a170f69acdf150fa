"""The front door of `kubectl sked`: its verbs by name. A verb's code is imported when it is called."""

from __future__ import annotations

import click

from schedkit import __version__
from schedkit.cli import Verb, VerbGroup

VERBS: dict[str, Verb] = {
    "get": Verb("schedkit.sked.plugin.get:command", "Show SchedExts, and the nodes that need attention."),
    "explain": Verb("schedkit.sked.plugin.explain:command", "Say what a node's kernel runs, and why."),
    "stop": Verb("schedkit.sked.plugin.stop:command", "Stop SchedExts, until `resume`."),
    "resume": Verb("schedkit.sked.plugin.resume:command", "Start again what was stopped."),
}


@click.group("kubectl sked", cls=VerbGroup, verbs=VERBS)
@click.version_option(__version__, prog_name="kubectl sked", message="%(prog)s %(version)s")
def main() -> None:
    """See and stop the sched_ext schedulers of a Kubernetes cluster."""
