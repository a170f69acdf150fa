"""Every command of `schedctl`, as the documentation and the manual describe them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import NamedTuple

import click

from schedkit.schedctl.main import main


class Described(NamedTuple):
    """One command: its words, what it is, and the context that its help is printed in."""

    words: tuple[str, ...]
    command: click.Command
    ctx: click.Context

    @property
    def title(self) -> str:
        """As a user types it."""
        return " ".join(self.words)

    @property
    def options(self) -> list[tuple[str, str]]:
        """Each flag with what it does; the flag for help is left out."""
        records = (
            each.get_help_record(self.ctx) for each in self.command.params if isinstance(each, click.Option)
        )
        return [record for record in records if record is not None]

    @property
    def verbs(self) -> list[tuple[str, str]]:
        """The commands below this one with their first sentences."""
        group = self.command
        if not isinstance(group, click.Group):
            return []
        found = ((name, group.get_command(self.ctx, name)) for name in group.list_commands(self.ctx))
        return [(name, summary(each)) for name, each in found if each is not None]

    @property
    def paragraphs(self) -> list[str]:
        """What its help says."""
        return inspect.cleandoc(self.command.help or "").split("\n\n")

    @property
    def usage(self) -> str:
        """What follows its words on a command line."""
        return " ".join(self.command.collect_usage_pieces(self.ctx))


def summary(command: click.Command) -> str:
    """The first sentence of its help, without the period."""
    return inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ").removesuffix(".")


def tree(
    command: click.Command = main, words: tuple[str, ...] = ("schedctl",), parent: click.Context | None = None
) -> Iterator[Described]:
    """The command itself, and all that are below it, in the order of its help."""
    ctx = click.Context(
        command, parent=parent, info_name=words[-1], terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    ctx.help_option_names = ["-h", "--help"]
    yield Described(words, command, ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            if inner is not None:
                yield from tree(inner, (*words, name), ctx)


_WIDTH = 96
