"""The front door of `schedctl`: its verbs by name. A verb's code is imported when it is called."""

from __future__ import annotations

from typing import Any

import click

from schedkit import __version__
from schedkit.cli import Verb, VerbGroup
from schedkit.schedctl.settings.flags import options_before_the_verb
from schedkit.schedctl.settings.table import Settings

VERBS: dict[str, Verb] = {
    "run": Verb(
        "schedkit.schedctl.verbs.machine.run:command",
        "Run a scheduler, and wait until the kernel confirms it.",
    ),
    "switch": Verb(
        "schedkit.schedctl.verbs.machine.switch:command",
        "Replace the running scheduler; if the new scheduler fails, the old scheduler comes back.",
    ),
    "status": Verb(
        "schedkit.schedctl.verbs.machine.status:command",
        "Show which scheduler the kernel runs, and who owns it.",
    ),
    "ps": Verb("schedkit.schedctl.verbs.machine.ps:command", "List schedkit's containers."),
    "logs": Verb("schedkit.schedctl.verbs.machine.logs:command", "Show a scheduler's output."),
    "stop": Verb(
        "schedkit.schedctl.verbs.machine.stop:command",
        "Stop a scheduler, and wait until the kernel has released it.",
    ),
    "reset": Verb("schedkit.schedctl.verbs.machine.reset:command", "Go back to the kernel's own scheduler."),
    "pull": Verb(
        "schedkit.schedctl.verbs.images.pull:command", "Fetch a scheduler's image, to run it later."
    ),
    "supervise": Verb(
        "schedkit.schedctl.verbs.machine.supervise:command", "Watch a scheduler until it ends, and say why."
    ),
    "doctor": Verb(
        "schedkit.schedctl.verbs.machine.doctor:command", "Check whether this machine can run schedulers."
    ),
    "list": Verb("schedkit.schedctl.verbs.catalog.list:command", "List the schedulers in the catalog."),
    "versions": Verb("schedkit.schedctl.verbs.images.versions:command", "List the versions of a scheduler."),
    "info": Verb(
        "schedkit.schedctl.verbs.images.info:command", "Show what is known about a scheduler's image."
    ),
    "verify": Verb("schedkit.schedctl.verbs.images.verify:command", "Verify who signed an image."),
    "trust": Verb(
        "schedkit.schedctl.verbs.trust:group", "Show whom this machine trusts, or update the trusted root."
    ),
    "mirror": Verb(
        "schedkit.schedctl.verbs.images.mirror:command",
        "Copy images and their signatures to a registry or folder.",
    ),
    "package": Verb(
        "schedkit.schedctl.verbs.images.package:command", "Make an image from a scheduler's program."
    ),
    "catalog": Verb("schedkit.schedctl.verbs.catalog:group", "Show, update or publish the catalog."),
    "config": Verb("schedkit.schedctl.verbs.config:command", "Show every setting, and where it came from."),
    "completion": Verb("schedkit.schedctl.verbs.completion:command", "Print a script for shell completion."),
}


@click.group(cls=VerbGroup, verbs=VERBS)
@click.version_option(__version__, prog_name="schedctl", message="%(prog)s %(version)s")
@options_before_the_verb
@click.pass_context
def main(ctx: click.Context, /, **flags: Any) -> None:  # noqa: ANN401 - click passes what the table declares
    """Choose and watch the sched_ext scheduler of this machine's kernel.

    `schedctl config` shows the environment variable and the configuration key for each flag.
    """
    ctx.obj = Settings(**flags)
