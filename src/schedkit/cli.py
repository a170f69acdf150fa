"""What both commands' front doors share: verbs imported when called, and how wrong usage is told.

A leaf: it knows click and nothing else of schedkit, so that neither command imports the other.
"""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_USAGE, _OUTPUT_LOST = 64, 74  # EX_USAGE and EX_IOERR of sysexits.h: `os` has them on some systems alone


class Verb(NamedTuple):
    """Where a verb lives, and its line in the help; neither needs its module imported."""

    target: str  # "package.module:attribute"
    summary: str


class WrongUsage(click.ClickException):
    """A command line that cannot be understood.

    The exit code is that of sysexits.h: click's own 2 is an answer of `schedctl status`.
    """

    exit_code = _USAGE

    def __init__(self, error: click.UsageError) -> None:
        super().__init__(error.format_message())
        self._error = error

    def show(self, file: IO[Any] | None = None) -> None:
        """Print usage, the message and where to find help, on stderr unless told otherwise."""
        text = io.StringIO()
        self._error.show(text)
        click.echo(readable(text.getvalue()), file=file, err=True, nl=False)


class VerbGroup(click.Group):
    """A command made of verbs; a verb's module is imported when that verb is called."""

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])
        self._verbs = dict(verbs)

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command line; end with EX_IOERR when its output did not get where it should."""
        with _delivered_output():
            return super().main(*args, **settings)

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
            raise TypeError(f"{self._verbs[cmd_name].target} is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table, so that help imports none of them."""
        with formatter.section("Commands"):
            if self._verbs:
                formatter.write_dl([(name, verb.summary) for name, verb in self._verbs.items()])
            else:
                formatter.write_text("No commands yet.")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs from the table, so that completing one imports none; and flags."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only shells ask

        verbs = self._verbs.items()
        found = [
            CompletionItem(name, help=verb.summary) for name, verb in verbs if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """No arguments at all ask for help."""
        words = list(args)  # click's parser takes them away
        with _own_exit_code(ctx):
            try:
                return super().parse_args(ctx, args or ["--help"])
            except click.NoSuchOption as error:
                raise self._misplaced(ctx, error.option_name, words) or error from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or name the nearest one."""
        if args[0] not in self._verbs and not ctx.resilient_parsing:
            raise click.UsageError(self._describe_unknown(ctx, args[0]), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse and run the verb."""
        with _own_exit_code(ctx):
            return super().invoke(ctx)

    def _misplaced(self, ctx: click.Context, flag: str, words: list[str]) -> click.UsageError | None:
        """What to say of a verb's flag that stands before the verb; None if it is nobody's."""
        verb = next((word for word in words if word in self._verbs), "")
        command = self.get_command(ctx, verb)
        if command is None or not any(flag in option.opts for option in command.get_params(ctx)):
            return None
        right = f"{ctx.command_path} {verb} {flag}"
        return click.UsageError(
            f"{flag} belongs to {verb}; write the flag after the command: `{right}`.", ctx
        )

    def _describe_unknown(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415 - few are ever told

        none_yet = "" if self._verbs else f": {ctx.command_path} has no commands yet"
        nearest = get_close_matches(name, known := self._known_words(ctx), n=1)
        guess = "".join(f" Did you mean {known[match]!r}?" for match in nearest)
        return f"No such command {name!r}{none_yet}.{guess}"

    def _known_words(self, ctx: click.Context) -> dict[str, str]:
        """What may stand in a verb's place, by what people type for it: `help` for `--help`."""
        flags = [flag for option in self.get_params(ctx) for flag in option.opts if flag.startswith("--")]
        return {flag.removeprefix("--"): flag for flag in flags} | {verb: verb for verb in self._verbs}


def readable(text: str) -> str:
    r"""The text with bytes that are no UTF-8 as `\xff`, where Python itself speaks of `\udcff`."""
    return re.sub(r"\\udc([89a-f][0-9a-f])", r"\\x\1", text.encode(errors="backslashreplace").decode())


@contextmanager
def _own_exit_code(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        error.ctx = error.ctx or _innermost(ctx)
        raise WrongUsage(error) from error


def _innermost(ctx: click.Context) -> click.Context:
    """The context whose usage to show: that of the verb, if one was found; click's parser does not tell."""
    verb = ctx.invoked_subcommand
    command = ctx.command.get_command(ctx, verb) if verb and isinstance(ctx.command, click.Group) else None
    return click.Context(command, parent=ctx, info_name=verb) if command else ctx


@contextmanager
def _delivered_output() -> Iterator[None]:
    """Say in one line what hindered output, and end; other failures are for others to explain."""
    try:
        try:
            yield
        finally:
            _flush_output()
    except OSError as error:
        if not _hindered_output(error):
            raise
        with suppress(OSError):  # stderr may lie on the same full disk
            click.echo(f"Error: cannot write the output: {error.strerror}", err=True)
        _discard_output()
        raise SystemExit(_OUTPUT_LOST) from None


def _flush_output() -> None:
    if sys.stdout is not None:  # None: the user closed it
        sys.stdout.flush()


def _hindered_output(error: OSError) -> bool:
    """Whether it was raised where output is written, and not by what a verb does."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    return place is not None and place.tb_frame.f_code in {click.echo.__code__, _flush_output.__code__}


def _discard_output() -> None:
    """Let go of what could not be written: Python would try again at its end, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
