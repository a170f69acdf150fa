"""The table of `schedctl status`, in Markdown, from the rules that decide it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from schedkit.model.host.status_words import RULES, Rule

_HEAD = "| kernel | owner | our containers | status | exit code | what it means | what to do |\n"


def status_table() -> str:
    """One row for each rule, in the order in which they are tried."""
    return "\n" + _HEAD + "|---" * 7 + "|\n" + "".join(map(_row, RULES)) + "\n"


def _row(rule: Rule) -> str:
    conditions = (_choices(rule.states), _choices(rule.owners), _choices(rule.containers))
    result = (f"`{rule.status}`", str(rule.status.exit_code), _filled(rule.words), _filled(rule.way_out))
    return f"| {' | '.join((*conditions, *result))} |\n"


def _choices(values: Iterable[StrEnum]) -> str:
    return ", ".join(sorted(values)) or "any"


def _filled(template: str) -> str:
    """What is filled in, in capitals, as in the usage of a command."""
    names = ("ops", "owner", "ending", "ours", "reason")
    return template.format(**{name: name.upper() for name in names})
