"""The front door of `sked`: its verbs by name. A verb's code is imported when it is called."""

from __future__ import annotations

import click

from schedkit import __version__
from schedkit.cli import Verb, VerbGroup

VERBS: dict[str, Verb] = {
    "manager": Verb("schedkit.sked.manager:command", "Run the operator."),
    "agent": Verb("schedkit.sked.agent.command:command", "Report what this node's kernel runs."),
}


@click.group(cls=VerbGroup, verbs=VERBS)
@click.version_option(__version__, prog_name="sked", message="%(prog)s %(version)s")
def main() -> None:
    """Choose and watch the sched_ext schedulers of a Kubernetes cluster's nodes."""
