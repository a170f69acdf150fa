"""`schedctl completion`: a script by which a shell completes commands, flags, schedulers and containers."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_PROGRAM = "schedctl"
_VARIABLE = "_SCHEDCTL_COMPLETE"  # by which the shell asks; click's own rule for the name


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script for SHELL that completes commands, flags, schedulers and containers.

    \b
    bash:  schedctl completion bash > /etc/bash_completion.d/schedctl
    zsh:   schedctl completion zsh > /usr/local/share/zsh/site-functions/_schedctl
    fish:  schedctl completion fish > /etc/fish/completions/schedctl.fish
    """  # noqa: D301 - click's own mark for lines that stay as they are
    kind = get_completion_class(shell)
    if kind is None:
        raise TypeError(f"there is no completion for the shell {shell}")
    click.echo(kind(ctx.find_root().command, {}, _PROGRAM, _VARIABLE).source())
