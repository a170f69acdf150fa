"""How `kubectl sked` prints answers, and what it says when something fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from schedkit.kube.errors import ConfigError, ForbiddenError, KubeError, UnauthorizedError, UnavailableError
from schedkit.model.api.conditions import legible
from schedkit.sked.plugin.exit_codes import FAILED, LACKS_RIGHTS


def common(command: Callable[..., None]) -> Callable[..., None]:
    """The flags that every verb has, as kubectl has them."""
    path = click.Path(path_type=Path)
    for each in (
        click.option("--kubeconfig", type=path, help="File that says how to reach the API server."),
        click.option("--context", help="Context of the kubeconfig. The current context if left out."),
        click.option(
            "-o",
            "--output",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Format of the answer.",
        ),
    ):
        command = each(command)
    return command


def show(answer: msgspec.Struct, output: str, lines: Iterator[str]) -> None:
    """Print it as text for people, or as JSON."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
        return
    for line in lines:
        click.echo(_printable(line))


def _printable(line: str) -> str:
    """Whoever writes into objects of the cluster writes nothing to the terminal; columns stay."""
    return "".join(each if each.isprintable() else "?" for each in line)


def tell(words: str) -> None:
    """Progress, which is no part of the answer."""
    click.echo(legible(words), err=True)


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns under each other; the last one is as long as it is."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)] if rows else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]]).rstrip()


@contextmanager
def told_plainly() -> Iterator[None]:
    """Failures of the API server as one sentence with a way out, and an exit code of their own."""
    try:
        yield
    except UnauthorizedError as error:
        _end(FAILED, login_words(error))
    except ForbiddenError as error:
        _end(LACKS_RIGHTS, f"a right is missing: {error}; ask whoever administers the cluster for it")
    except ConfigError as error:
        _end(FAILED, str(error))
    except UnavailableError as error:
        _end(FAILED, f"{error}; is the cluster up, and does kubectl reach it?")
    except KubeError as error:
        _end(FAILED, str(error))


def login_words(error: UnauthorizedError) -> str:
    """What is told of credentials that the API server does not accept."""
    words = f"the API server does not accept the login of this context ({error})"
    return (
        f"{words}: log in again, or choose another context; `kubectl auth whoami` tells whether it is valid"
    )


def _end(code: int, words: str) -> NoReturn:
    click.echo(legible(f"kubectl sked: {words}"), err=True)
    sys.exit(code)
