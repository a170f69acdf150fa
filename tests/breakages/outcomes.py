"""What became of tests, told to whoever started pytest: a plugin, and how its word is judged.

An exit code does not tell a test that failed from one that could not run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

VARIABLE = "BREAKAGES_OUTCOMES"  # the variable that names the file to write to
_HUNG = "from pytest-timeout"


class Phase(NamedTuple):
    """How one phase of one test ended."""

    test: str
    when: str  # setup, call or teardown
    outcome: str  # passed, failed or skipped
    words: str = ""  # the end of what it said


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    phase = Phase(report.nodeid, report.when, report.outcome, report.longreprtext[-2000:])
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(json.dumps(phase) + "\n")


def read(file: Path) -> list[Phase]:
    """All phases that were told."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Phase(*json.loads(line)) for line in lines]


def of(test: str, phases: Iterable[Phase]) -> list[Phase]:
    """Those of that test, with whatever parameters."""
    return [each for each in phases if each.test == test or each.test.startswith(f"{test}[")]


def why_not_caught(test: str, phases: Iterable[Phase]) -> str | None:
    """What is wrong with the test's word about a broken tree; None: it failed, as it should."""
    ours = of(test, phases)
    failed = [each for each in ours if each.outcome == "failed"]
    if any(each.when == "call" and _HUNG not in each.words for each in failed):
        return None
    if failed:
        hung = _HUNG in failed[0].words
        what = "it hung" if hung else f"it broke in its {failed[0].when}"
        return f"{what}, which may have another cause:\n{failed[0].words}"
    return _why_no_result(ours) or "it passed in spite of the breakage"


def why_not_passed(test: str, phases: Iterable[Phase]) -> str | None:
    """What is wrong with the test in a tree that is whole; None: it passed."""
    ours = of(test, phases)
    failed = [each for each in ours if each.outcome == "failed"]
    return f"it fails without any breakage:\n{failed[0].words}" if failed else _why_no_result(ours)


def _why_no_result(ours: list[Phase]) -> str | None:
    if skipped := [each for each in ours if each.outcome == "skipped"]:
        return f"it was skipped: {skipped[0].words}"
    if not any(each.when == "call" for each in ours):
        return "it did not run: there is no such test, it is marked `full`, or its module cannot be imported"
    return None
