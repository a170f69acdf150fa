"""How `schedctl` ends: its exit codes, and what it says when something went wrong.

Every failure that a user may meet becomes a `Problem`; any other is a mistake of ours, and shown as one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

import click

SCHEMA_VERSION: Final = "1"


class ExitCode(IntEnum):
    """What scripts may rely on. `run --attach` ends with the container's own code."""

    DONE = 0
    FAILED = 1
    DISCREPANCY = 2
    USAGE = os.EX_USAGE
    OUTPUT_LOST = os.EX_IOERR
    LEFT_BEHIND = os.EX_TEMPFAIL
    HUNG_UP = 129  # 128 and the signal's number, as shells say it
    TERMINATED = 143


MEANINGS: Final = {  # of exit codes, as the documentation and the manual tell them
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed, refused, or interrupted with Ctrl-C; for `doctor`: schedulers cannot run here",
    ExitCode.DISCREPANCY: "only `status`: the kernel's scheduler and schedkit's containers do not match",
    ExitCode.USAGE: "the command line cannot be understood",
    ExitCode.OUTPUT_LOST: "the output could not be written",
    ExitCode.LEFT_BEHIND: "only `supervise`: it failed, and its scheduler may still be in the kernel",
    ExitCode.HUNG_UP: "the terminal's session was lost; only `run` and `switch` undo what they had begun",
    ExitCode.TERMINATED: "ended by SIGTERM; only `run` and `switch` undo what they had begun",
}


class Problem(Exception):  # noqa: N818 - it is told to a user, who met a problem, not an error of ours
    """What happened, why, and what to do next; the last two may be empty when nobody knows."""

    def __init__(self, what: str, *, why: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.why, self.remedy = what, why, remedy
        self.exit_code = ExitCode.FAILED

    def as_json(self) -> str:
        """For programs; the same three parts, in characters that no terminal obeys."""
        import json  # noqa: PLC0415 - people are told in text

        parts = {"what": self.what, "why": self.why, "next": self.remedy}
        return json.dumps({"schema_version": SCHEMA_VERSION, "error": parts})

    def as_text(self) -> str:
        """For people: one line for each part that there is."""
        lines = [f"Error: {self.what}", f"  why:  {self.why}", f"  next: {self.remedy}"]
        present = zip(lines, (self.what, self.why, self.remedy), strict=True)
        return "\n".join(line for line, part in present if part)


def report(problem: Problem, *, as_json: bool) -> None:
    """Print it on stderr, with whatever a stranger wrote made harmless."""
    click.echo(problem.as_json() if as_json else printable(problem.as_text()), err=True)


def in_words(error: Exception) -> str:
    """What an error says, without a number that its words say again."""
    return re.sub(r"\[Errno -?\d+\] ", "", str(error))


def printable(text: str) -> str:
    """The text without anything that a terminal would obey; line breaks stay."""
    return "".join(
        character if character.isprintable() or character == "\n" else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


@contextmanager
def attempting(what: str) -> Iterator[None]:
    """Say what was being done when a part failed; what is a problem already says it itself."""
    try:
        yield
    except Exception as error:
        problem = None if isinstance(error, Problem) else explain(error)
        if problem is None:
            raise
        why = ": ".join(filter(None, (problem.what, problem.why)))
        raise Problem(f"cannot {what}", why=why, remedy=problem.remedy) from error


def explain(error: Exception) -> Problem | None:
    """The problem behind an error, or None: then it is a mistake of ours."""
    # late: a verb that fails has imported them already, and the others need none of it
    from schedkit.schedctl.problems import explanations  # noqa: PLC0415

    return error if isinstance(error, Problem) else explanations.explain(error)


@contextmanager
def telling_problems(*, as_json: bool = False) -> Iterator[None]:
    """Explain on stderr what went wrong, and exit, mostly with 1; a mistake of ours stays one."""
    try:
        yield
    except Exception as error:
        problem = explain(error)
        if problem is None:
            raise
        report(problem, as_json=as_json)
        raise SystemExit(problem.exit_code) from None
