"""Expressions that are compiled late do what others do, from their first use on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from schedkit.schedctl.latepatterns import LatePattern, compiled_late

USES: dict[str, Callable[[re.Pattern[str]], Any]] = {
    "search": lambda pattern: [found and found.span() for found in map(pattern.search, ("xay", "", "A"))],
    "replace": lambda pattern: pattern.sub("-", "bab"),
    "attributes": lambda pattern: (pattern.pattern, pattern.flags, pattern.groups, dict(pattern.groupindex)),
    "functions of re": lambda pattern: (re.split(pattern, "1a2"), re.fullmatch(pattern, "b")),
    "made of another": lambda pattern: re.compile(pattern).findall("aba"),
    "asked for its kind": lambda pattern: isinstance(pattern, re.Pattern),
    "used twice": lambda pattern: [pattern.match("a") is not None for _ in range(2)],
}


def late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """What libraries get while a command starts."""
    with compiled_late():
        return re.compile(pattern, flags)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_late_pattern_does_what_an_early_one_does(use: Callable[[re.Pattern[str]], Any]) -> None:
    assert use(late("(?P<a>a)", re.IGNORECASE)) == use(re.compile("(?P<a>a)", re.IGNORECASE))


def test_a_wrong_pattern_is_told_when_it_is_used() -> None:
    wrong = late("(")

    with pytest.raises(re.error, match="unterminated subpattern"):
        wrong.match("")


def test_what_a_pattern_does_not_have_a_late_one_has_neither() -> None:
    assert not hasattr(late("a"), "nonsense")


def test_afterwards_patterns_are_compiled_at_once_again() -> None:
    kinds: list[type] = [type(late("a")), type(re.compile("a"))]

    assert kinds == [LatePattern, re.Pattern]


def test_a_failure_leaves_nothing_behind() -> None:
    early = re.compile

    @compiled_late()
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert re.compile is early
