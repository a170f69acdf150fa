"""What both commands' front doors share: verbs imported when called, and one exit code for wrong usage.

A leaf: it knows click and nothing else of schedkit, so that neither command imports the other.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import click


class Verb(NamedTuple):
    """Where a verb lives, and its line in the help; neither needs its module imported."""

    target: str  # "package.module:attribute"
    summary: str


class WrongUsage(click.ClickException):
    """A command line that cannot be understood.

    The exit code is that of sysexits.h: click's own 2 is an answer of `schedctl status`.
    """

    exit_code = os.EX_USAGE

    def __init__(self, error: click.UsageError) -> None:
        super().__init__(error.format_message())
        self._error = error

    def show(self, file: IO[Any] | None = None) -> None:
        """Print usage, the message and where to find help, on stderr unless told otherwise."""
        self._error.show(file)


class VerbGroup(click.Group):
    """A command made of verbs; a verb's module is imported when that verb is called."""

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._verbs = dict(verbs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order they were declared in."""
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb; None if there is no such verb."""
        if cmd_name not in self._verbs:
            return None
        module, _, attribute = self._verbs[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self._verbs[cmd_name].target} is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table, so that help imports none of them."""
        with formatter.section("Commands"):
            if self._verbs:
                formatter.write_dl([(name, verb.summary) for name, verb in self._verbs.items()])
            else:
                formatter.write_text("None yet.")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """No arguments at all ask for help."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or name the nearest one."""
        if args[0] not in self._verbs and not ctx.resilient_parsing:
            raise click.UsageError(self._describe_unknown(ctx, args[0]), ctx)
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse this group's own flags."""
        with _own_exit_code():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse and run the verb."""
        with _own_exit_code():
            return super().invoke(ctx)

    def _describe_unknown(self, ctx: click.Context, name: str) -> str:
        if not self._verbs:
            return f"No such command {name!r}: {ctx.command_path} has no commands yet."
        nearest = difflib.get_close_matches(name, self._verbs, n=1)
        return f"No such command {name!r}." + "".join(f" Did you mean {match!r}?" for match in nearest)


@contextmanager
def _own_exit_code() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise WrongUsage(error) from error
