"""Answers on a terminal: the same words as in a pipe, with headings and names set apart."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from schedkit.schedctl.answers.answer import Block, Fields, Table
from schedkit.schedctl.problems.problem import printable


def show(blocks: Iterable[Block], console: Console | None = None) -> None:
    """Print the blocks, as wide as the terminal is."""
    out = console or Console(highlight=False)
    for block in blocks:
        match block:
            case str():
                out.print(_plain(block))
            case Table(headings, rows):
                out.print(_grid(headings, rows))
            case Fields(pairs):
                out.print(_grid([], [(f"{name}:", value) for name, value in pairs], names="bold"))


def _grid(headings: Iterable[str], rows: Iterable[Iterable[str]], *, names: str = "") -> Grid:
    grid = Grid(box=None, pad_edge=False, show_header=bool(list(headings)), header_style="bold")
    for heading in headings:
        grid.add_column(heading, overflow="fold")
    for row in rows:
        cells = [_plain(cell) for cell in row]
        cells[0].stylize(names)
        grid.add_row(*cells)
    return grid


def _plain(text: str) -> Text:
    """Text in which rich finds no markup and a terminal no commands."""
    return Text(printable(text))
