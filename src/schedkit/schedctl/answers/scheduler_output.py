"""What a scheduler writes, passed on while it is written."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from schedkit.runtimes.containers import Output, Stream
from schedkit.schedctl.problems.problem import printable


def forward(outputs: Iterable[Output]) -> None:
    """Write each piece where the program wrote it; on a terminal without anything that it would obey."""
    for output in outputs:
        is_error = output.stream is Stream.STDERR
        file = sys.stderr if is_error else sys.stdout
        if file is not None and file.isatty():
            click.echo(printable(output.data.decode(errors="replace")), file=file, nl=False)
        else:
            click.echo(output.data, err=is_error, nl=False)
