"""`sked agent`: what this node's kernel runs, for the cluster to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedkit.sked.flags import ADDRESS, context_flag, flag, health_probe_flag, kubeconfig_flag


@click.command("agent", epilog="A flag on the command line overrides its environment variable.")
@kubeconfig_flag
@context_flag
@health_probe_flag
@flag(
    "--metrics-bind-address",
    "Where /metrics is served over HTTPS, to clients that may read it; 0: nowhere.",
    type=ADDRESS,
    default="0",
    show_default=True,
)
@click.option("--once", is_flag=True, help="Look once, print the report as JSON, and ask no API server.")
def command(*, once: bool, **given: Any) -> None:  # noqa: ANN401  # one field of `AgentSettings` each
    """Report what this node's kernel runs, until SIGTERM."""
    # help and wrong usage need none of this
    from schedkit.kube.errors import KubeError  # noqa: PLC0415
    from schedkit.sked.agent import journal, process  # noqa: PLC0415

    settings = process.AgentSettings(**given, root=Path("/"))
    if once:
        click.echo(process.look_once(settings.root))
        return
    try:
        process.run(settings)
    except (KubeError, OSError) as error:
        journal.say("error", "agent_failed", reason=str(error))
        raise SystemExit(1) from error
