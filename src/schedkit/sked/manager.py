"""`sked manager`: the operator as a process."""

from __future__ import annotations

from pathlib import Path

import click

from schedkit.sked.settings import Settings


@click.command("manager")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Path of the kubeconfig.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option("--namespace", "-n", help="Namespace of the lease.")
@click.option("--leader-elect", is_flag=True, help="Act only while holding the lease.")
def command(
    kubeconfig: Path | None, context: str | None, namespace: str | None, *, leader_elect: bool
) -> None:
    """Run the operator."""
    from schedkit.sked import wiring  # noqa: PLC0415  # help and wrong usage need none of it

    wiring.run(Settings(kubeconfig, context, namespace, leader_elect))
