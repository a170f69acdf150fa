"""The tiers of tests, one folder each, and what is too long for every day.

A pytest plugin: it runs the quick tiers first, ends what hangs, and leaves tests marked `full` out unless
asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

TIERS = ("unit", "contract", "cluster", "kernel", "e2e")

# For one test with its fixtures, so that a hang is a failure. Far above what is needed: the first test of a
# tier may wait for a boot, under TCG, on a busy machine. A test that needs more has a mark of its own.
LIMITS_S = {"unit": 120, "contract": 600, "cluster": 600, "kernel": 1200, "e2e": 1200}


def of(nodeid: str) -> str | None:
    """The tier a test belongs to; None for one that lies elsewhere."""
    match nodeid.split("/"):
        case ["tests", tier, *_] if tier in TIERS:
            return tier
    return None


def asked_for(config: pytest.Config) -> list[str]:
    """The tiers the command line names, whether or not they hold a test."""
    folder = config.rootpath / "tests"
    named = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    return [tier for tier in TIERS if any(_overlap(folder / tier, path) for path in named)]


def _overlap(folder: Path, named: Path) -> bool:
    return folder.is_relative_to(named) or named.is_relative_to(folder)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run tests that are too long for every day")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: too long for every day, runs with --full")
    config.addinivalue_line("markers", "timeout(seconds): ends a test that hangs, by pytest-timeout")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for, and order the rest by tier."""
    if not config.getoption("full"):
        config.hook.pytest_deselected(items=list(_too_long(items)))
        items[:] = [item for item in items if item.get_closest_marker("full") is None]
    items.sort(key=_rank)
    _limit(items)


def _limit(items: list[pytest.Item]) -> None:
    for item in items:
        limit_s = LIMITS_S.get(of(item.nodeid) or "")
        if limit_s and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(limit_s))


def _too_long(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    return (item for item in items if item.get_closest_marker("full") is not None)


def _rank(item: pytest.Item) -> int:
    tier = of(item.nodeid)
    return TIERS.index(tier) if tier else -1
