"""Every verb's answer, printed in one way: for people as text, for programs as JSON or YAML.

A verb returns an `Answer`: a result whose schema is published, and the same for people as blocks. Colours and
`rich` come in only when a person watches; in a pipe columns are aligned with spaces.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import click

from schedkit.schedctl.problems.problem import ExitCode, printable
from schedkit.schedctl.settings.flags import option

if TYPE_CHECKING:  # msgspec takes longer to import than `status` takes for all the rest
    from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.problems.problem import telling_problems

Format: TypeAlias = Literal["text", "json", "yaml"]


class Table(NamedTuple):
    """Rows under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


class Fields(NamedTuple):
    """Names with their values; a value of several lines is continued below itself."""

    pairs: Sequence[tuple[str, str]]


Block: TypeAlias = str | Table | Fields


class Answer(NamedTuple):
    """A result, how people read it, and how the verb ends."""

    result: Result | Mapping[str, Any]
    text: Sequence[Block] = ()
    exit_code: ExitCode = ExitCode.DONE
    warnings: Sequence[str] = ()  # for people, on stderr


def answering(verb: Callable[..., Answer]) -> Callable[..., None]:
    """The verb with `-o`: its answer is printed, its problems are explained, and its exit code counts."""

    @option("output")
    @functools.wraps(verb)
    def command(*args: Any, output: Format, **settings: Any) -> None:  # noqa: ANN401 - click passes what the verb declared
        with telling_problems(as_json=output == "json"):
            answer = verb(*args, **settings)
        emit(answer, output)
        raise SystemExit(answer.exit_code)

    return command


def emit(answer: Answer, output: Format) -> None:
    """Print the answer on stdout, and its warnings on stderr."""
    for warning in answer.warnings:
        click.echo(printable(f"Warning: {warning}"), err=True)
    wants_emphasis = any(not isinstance(block, str) for block in answer.text)
    if output == "text" and wants_emphasis and sys.stdout is not None and sys.stdout.isatty():
        _emit_to_person(answer.text)
    else:
        click.echo(render(answer, output), nl=False)


def render(answer: Answer, output: Format) -> str:
    """The answer as it is piped, with the line break at its end."""
    match output:
        case "json":
            return _json(answer.result)
        case "yaml":
            return _yaml(answer.result)
        case "text":
            return "".join(f"{line}\n" for line in render_lines(answer.text))


def _json(result: Result | Mapping[str, Any]) -> str:
    import json  # noqa: PLC0415 - people are answered in text

    return json.dumps(_plain(result), indent=2, ensure_ascii=False) + "\n"


def _yaml(result: Result | Mapping[str, Any]) -> str:
    import yaml  # noqa: PLC0415 - most answers are not asked for in YAML

    return str(yaml.safe_dump(_plain(result), sort_keys=False, allow_unicode=True))


def _plain(result: Result | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(result, Mapping):
        return dict(result)
    from schedkit.schedctl.answers.result import to_plain  # noqa: PLC0415 - as above

    return to_plain(result)


def render_lines(blocks: Iterable[Block]) -> Iterable[str]:
    """The blocks one below the other, without a character that a terminal would obey."""
    for block in blocks:
        yield from (printable(line).rstrip() for line in _lines(block))


def _lines(block: Block) -> Iterable[str]:
    match block:
        case str():
            return block.split("\n")
        case Table(headings, rows):
            return _aligned([headings, *rows])
        case Fields(pairs):
            return _aligned([(f"{name}:", value) for name, value in _one_line_each(pairs)])


def _one_line_each(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    for name, value in pairs:
        first, *others = value.split("\n")
        yield name, first
        yield from (("", other) for other in others)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two spaces apart; the last one ends where its text does."""
    cells = [["" if cell == ":" else cell for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]


def _emit_to_person(blocks: Iterable[Block]) -> None:
    from schedkit.schedctl.answers import terminal  # noqa: PLC0415 - rich is imported only when somebody watches

    terminal.show(blocks)
