"""Pages whose commands are run: their `console` blocks, the files they name, and how output is compared.

A line after `$ ` is a command, and what follows it is what it prints. A block of another kind with a `title`
is a file. A comment `<!-- not run: REASON -->` right above a block leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BLOCK = re.compile(
    r"^(?P<omission><!-- not run: [^>]+ -->\n)?"
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
# what differs from one run to the next, and nothing else
_VARYING = (
    (re.compile(r"(?<![^ ])(\d+[dhms]){1,2}(?![^ ])"), "<age>"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![^ \"])"), "-<suffix>"),
    (re.compile(r"sha256:([0-9a-f]{64}|…)"), "sha256:<digest>"),
    (re.compile(r" +"), " "),
)
_ANYTHING = "..."  # a line that stands for any number of lines


@dataclass(frozen=True)
class File:
    """Something to write before the next command."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """Something to run, and what the page says that it prints."""

    line: int
    words: str
    shown: tuple[str, ...] = ()  # empty: the page does not say

    @property
    def only_looks(self) -> bool:
        """Whether it may be asked again until what it looks at has come about."""
        return re.match(r"kubectl (-n \w+ |sked )?(get|events)\b", self.words) is not None

    def matches(self, said: str) -> bool:
        """Whether it printed what the page shows, but for ages, suffixes of pods and digests."""
        pattern = "".join(_pattern(line) for line in self.shown)
        return (
            re.fullmatch(pattern, "".join(f"{_constant(line)}\n" for line in said.splitlines())) is not None
        )


def steps(page: str) -> Iterator[File | Command]:
    """All files and commands of the page that are to be run, in their order."""
    for block in _BLOCK.finditer(page):
        if block["omission"]:
            continue
        if block["kind"] == "console":
            first = page.count("\n", 0, block.start("text")) + 1
            yield from _commands(block["text"].splitlines(), first)
        elif block["title"]:
            yield File(block["title"], block["text"])


def _commands(lines: Sequence[str], first: int) -> Iterator[Command]:
    starts = [place for place, line in enumerate(lines) if line.startswith("$ ")]
    if starts[:1] != [0]:
        raise ValueError(f"line {first}: a console block begins with a command, after `$ `")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield Command(first + start, lines[start].removeprefix("$ "), tuple(lines[start + 1 : end]))


def _pattern(line: str) -> str:
    return r"(?:.*\n)*" if line == _ANYTHING else re.escape(_constant(line)) + r"\n"


def _constant(line: str) -> str:
    for pattern, replacement in _VARYING:
        line = pattern.sub(replacement, line)
    return line.strip()
