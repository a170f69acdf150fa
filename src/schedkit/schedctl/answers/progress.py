"""What is going on, on stderr: a line for each step; a person sees how far an image is loaded."""

from __future__ import annotations

import sys
from contextlib import suppress

import click

from schedkit.runtimes.image_content import Progress
from schedkit.schedctl.problems.problem import printable

_MB = 1_000_000


def tell(line: str) -> None:
    """Say what is being done; a change goes on where nobody can hear of it any more."""
    with suppress(OSError):  # a pipe whose reader is gone, a terminal that was closed, a full disk
        click.echo(printable(line), err=True)


def loading(progress: Progress) -> None:
    """Say how far it is, on one line that is written again and again; nothing in a pipe."""
    if sys.stderr is None or not sys.stderr.isatty():
        return
    is_done = progress.done_bytes >= progress.total_bytes
    line = f"\rloading {progress.done_bytes / _MB:.1f} of {progress.total_bytes / _MB:.1f} MB"
    click.echo(line, err=True, nl=is_done)
