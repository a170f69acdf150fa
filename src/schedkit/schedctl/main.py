"""The front door of `schedctl`: its verbs by name. A verb's code is imported when it is called."""

from __future__ import annotations

from typing import Any

import click

from schedkit import __version__
from schedkit.cli import Verb, VerbGroup
from schedkit.schedctl.settings import Settings

VERBS: dict[str, Verb] = {
    "run": Verb("schedkit.schedctl.run:command", "Run a scheduler, until the kernel confirms it."),
    "status": Verb("schedkit.schedctl.status:command", "Show what the kernel runs, and whose it is."),
    "ps": Verb("schedkit.schedctl.ps:command", "List the containers of schedkit's."),
    "logs": Verb("schedkit.schedctl.logs:command", "Show what a scheduler wrote."),
    "stop": Verb("schedkit.schedctl.stop:command", "Stop a scheduler, until the kernel has let go of it."),
    "supervise": Verb("schedkit.schedctl.supervise:command", "Stay with a scheduler until its end."),
    "doctor": Verb("schedkit.schedctl.doctor:command", "Check whether this machine can run schedulers."),
    "list": Verb("schedkit.schedctl.listing:command", "List the schedulers of the catalog."),
    "versions": Verb("schedkit.schedctl.versions:command", "List the versions of a scheduler."),
    "info": Verb("schedkit.schedctl.info:command", "Show what is known about a scheduler's image."),
    "verify": Verb("schedkit.schedctl.verify:command", "Verify who signed an image."),
    "trust": Verb("schedkit.schedctl.trust:group", "Show whom this machine trusts, or refresh it."),
    "mirror": Verb("schedkit.schedctl.mirror:command", "Copy images with their signatures to another place."),
    "package": Verb("schedkit.schedctl.package:command", "Make an image of a scheduler's program."),
    "catalog": Verb("schedkit.schedctl.catalog:group", "Show, update or publish the catalog."),
}


@click.group(cls=VerbGroup, verbs=VERBS)
@click.version_option(__version__, prog_name="schedctl", message="%(prog)s %(version)s")
@click.option(
    "-d",
    "--driver",
    type=click.Choice(["podman", "containerd"]),
    default="podman",
    envvar="SCHEDCTL_DRIVER",
    show_default=True,
    help="What runs the containers.",
)
@click.option("--socket", envvar="SCHEDCTL_SOCKET", metavar="PATH", help="The driver's socket.")
@click.option("--catalog", envvar="SCHEDCTL_CATALOG", metavar="PATH|URL", help="A catalog above all others.")
@click.option(
    "--registry-ca",
    envvar="SCHEDCTL_REGISTRY_CA",
    metavar="FILE",
    help="Authorities that registries may use.",
)
@click.option(
    "--insecure-registry",
    "insecure_registries",
    envvar="SCHEDCTL_INSECURE_REGISTRY",
    metavar="HOST",
    multiple=True,
    help="A registry that is asked without TLS.",
)
@click.option(
    "--registry-mirror",
    "registry_mirrors",
    envvar="SCHEDCTL_REGISTRY_MIRROR",
    metavar="ORIGIN=COPY",
    multiple=True,
    help="Where images of ORIGIN are looked for first.",
)
@click.option(
    "--layout", envvar="SCHEDCTL_LAYOUT", metavar="FOLDER", help="Read images from this OCI layout alone."
)
@click.pass_context
def main(ctx: click.Context, /, **flags: Any) -> None:  # noqa: ANN401 - click passes what is declared above
    """Choose and watch the sched_ext scheduler of this machine's kernel."""
    ctx.obj = Settings(**flags)
