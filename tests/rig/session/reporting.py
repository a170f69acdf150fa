"""What a test run says at its end: what ran in each tier, what could not run, why, and what to do about it.

A pytest plugin. `Unavailable` in a test or a fixture becomes a skip with a remedy. With CI=true a run that
left anything out ends non-zero: there, a test that did not run has not passed.
"""

from __future__ import annotations

import heapq
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from dataclasses import astuple, dataclass, field
from operator import itemgetter
from typing import Protocol

import pytest

from rig.base import cache, processes
from rig.base.errors import RigError, Unavailable
from rig.runtimes import daemons
from rig.session import tiers

IN_GUEST = "RIG_GUEST_REPORTS"  # set only inside a guest: the file for its reports
_TESTS_NAMED = 3  # per entry of the list; the rest is counted
_SLOWEST = 20
_WORTH_TELLING_S = 0.1


@dataclass
class Cost:
    """What a tier took: wall time, processor time of all it started, and the machine's load around it."""

    wall_s: float = 0
    cpu_s: float = 0
    load_before: float | None = None  # None: it has not begun
    load_after: float = 0

    def begin(self) -> None:
        if self.load_before is None:
            self.load_before = os.getloadavg()[0]

    def add(self, wall_s: float, cpu_s: float) -> None:
        self.wall_s += wall_s
        self.cpu_s += cpu_s
        self.load_after = os.getloadavg()[0]


class Beside(Protocol):
    """What works beside the tests of other tiers, and is counted for its own."""

    costs: dict[str, Cost]  # by tier

    def cpu_seconds(self) -> float:
        """All that it has spent so far."""


@dataclass
class Record:
    """What one session did, as far as its summary is concerned."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    costs: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    durations: dict[str, float] = field(
        default_factory=lambda: defaultdict(float)
    )  # of a test's phases together
    missing: dict[str, Unavailable] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    excused: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    beside: Beside | None = None
    tier: str | None = None  # whose time it is now; None: nobody's
    counted_until_s: float = 0
    counted_cpu_s: float = 0

    def add(self, report: pytest.TestReport) -> None:
        """Take in one phase of one test."""
        tier = tiers.of(report.nodeid) or "other"
        self.durations[report.nodeid] += report.duration
        for text in getattr(report, "notes", ()):
            self.note(text)
        if (missing := getattr(report, "unavailable", None)) is not None:
            self.missing[report.nodeid] = Unavailable(*missing)
        if report.failed:
            self.outcomes[tier]["failed"] += 1
        elif report.skipped and not hasattr(report, "wasxfail"):
            self.outcomes[tier]["skipped"] += 1
            self.skipped[report.nodeid] = _reason(report)
        elif report.when == "call":
            self.outcomes[tier]["passed"] += 1

    def note(self, text: str) -> None:
        """Keep a line for the summary, once, however often it is said."""
        if text not in self.notes:
            self.notes.append(text)

    def turn_to(self, tier: str | None) -> None:
        """Count all since the last turn for the tier before, so that the tiers add up to the session.

        What pytest measures itself leaves out what a plugin does between tests: to boot a guest, to stop it.
        """
        now_s, cpu_s = time.monotonic(), self._cpu_in_front_s()
        if self.tier is not None:
            self.costs[self.tier].add(now_s - self.counted_until_s, cpu_s - self.counted_cpu_s)
        self.tier, self.counted_until_s, self.counted_cpu_s = tier, now_s, cpu_s
        if tier is not None:
            self.costs[tier].begin()

    def _cpu_in_front_s(self) -> float:
        """Of this process and all it has started, but for what works beside."""
        beside_s = self.beside.cpu_seconds() if self.beside else 0
        return processes.cpu_seconds(os.getpid()) - beside_s

    def plain_skips(self) -> dict[str, str]:
        """Skips that nobody gave a remedy or an excuse for: reason by test."""
        explained = self.missing.keys() | self.excused
        return {test: why for test, why in self.skipped.items() if test not in explained}

    def ran(self, tier: str) -> bool:
        """Whether at least one test of the tier came to a result."""
        return bool(self.outcomes[tier]["passed"] + self.outcomes[tier]["failed"])


_sessions: list[Record] = []  # the last one is running; tests of this plugin run sessions inside a session


def _record() -> Record:
    return _sessions[-1]


def note(text: str) -> None:
    """Add a line to the summary, once, however often it is said; rigs by hand have no summary."""
    if _sessions:
        _record().note(text)


def send_notes_with(report: pytest.TestReport) -> None:
    """Let the report carry what was noted so far to the session that tells of it."""
    report.notes = list(_record().notes)  # type: ignore[attr-defined]  # reports carry what plugins add


def record_missing(test: str, missing: Unavailable) -> None:
    """List a test among those that could not run; for plugins that report without pytest's own protocol."""
    _record().missing[test] = missing


def excuse(test: str, gone: Unavailable) -> None:
    """Name in the summary what a test cannot have because nobody offers it; CI is content with that."""
    note(f"{gone.what}: {gone.why}, so its tests did not run; {gone.remedy}")
    _record().excused.add(test)


def count_apart(beside: Beside) -> None:
    """Count for its tiers what works for them while tests of others run."""
    _record().beside = beside


def _in_guest() -> bool:
    """Inside a guest the host's pytest tells the story, and the host's folders look abandoned but are not."""
    return IN_GUEST in os.environ


def pytest_configure() -> None:
    _sessions.append(Record())


def pytest_unconfigure() -> None:
    _sessions.pop()


def pytest_sessionstart() -> None:
    if _in_guest():
        return
    try:
        processes.sweep()
    except (RigError, Unavailable) as error:  # the cache itself: no test could tell it better
        raise pytest.UsageError(str(error)) from error
    # make passes SIGTERM on, and the leash sends one when make is killed: fixtures still get to clean up
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # whoever starts a run in the background of a script makes it ignore Ctrl-C, and so would all it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, Unavailable):
        path, line, _ = report.location
        report.outcome = "skipped"
        report.longrepr = (path, line or 0, f"Skipped: {error}")
        # an attribute, because reports travel from guests to the host as JSON
        report.unavailable = astuple(error)  # type: ignore[attr-defined]  # reports carry what plugins add
    if report.failed:
        report.sections += [*daemons.obituaries(), *_kernel_log()]
    return report


def _kernel_log() -> list[tuple[str, str]]:
    """The end of a guest's own; the host's is about everything but tests."""
    if not _in_guest():
        return []
    lines = processes.run(["dmesg"], check=False).stdout.splitlines()
    return [("the end of the kernel's log", "\n".join(lines[-40:]))]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _record().add(report)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Begin before any plugin does something for the test."""
    _turn_to_tier_of(item.nodeid)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    """The same where workers run the tests."""
    _turn_to_tier_of(nodeid)


def _turn_to_tier_of(test: str) -> None:
    tier = tiers.of(test) or "other"
    if tier != _record().tier and not _in_guest():
        _record().turn_to(tier)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if not _in_guest():
        _record().turn_to(None)
    good = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if session.exitstatus in good and next(_ci_complaints(session.config), None):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, None, None]:
    """Come last, so that only pytest's closing line follows."""
    yield
    if _in_guest() or config.option.collectonly:
        return
    for title, lines in _sections(config):
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


def _sections(config: pytest.Config) -> Iterator[tuple[str, list[str]]]:
    if any(_record().outcomes.values()):
        if slowest := list(_slowest()):
            yield f"the slowest {len(slowest)} tests", slowest
        yield "what ran", [*_tier_table(), *_record().notes, *_cache_line()]
    if unable := [*_missing_lines(), *_skip_lines()]:
        yield "what could not run", unable
    if complaints := list(_ci_complaints(config)):
        yield "not good enough for CI", complaints


def _slowest() -> Iterator[str]:
    for test, seconds in heapq.nlargest(_SLOWEST, _record().durations.items(), key=itemgetter(1)):
        if seconds >= _WORTH_TELLING_S:
            yield f"{seconds:>7.1f} s  {test}"


def _tier_table() -> Iterator[str]:
    yield f"{'tier':<10}{'passed':>8}{'failed':>8}{'skipped':>9}{'time':>11}{'CPU':>11}   load before, after"
    for tier in (*tiers.TIERS, "other"):
        if counts := _record().outcomes.get(tier):
            numbers = f"{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
            yield f"{tier:<10}{numbers}{_priced(_record().costs[tier])}"
        if (beside := _record().beside) is not None and tier in beside.costs:
            yield f"{'':<10}{'beside the others':>25}{_priced(beside.costs[tier])}"


def _priced(cost: Cost) -> str:
    return f"{cost.wall_s:>9.1f} s{cost.cpu_s:>9.1f} s   {cost.load_before or 0:.1f} {cost.load_after:.1f}"


def _cache_line() -> Iterator[str]:
    """Measuring takes a while, and unit tests do not use the cache."""
    if any(_record().ran(tier) for tier in tiers.TIERS if tier != "unit"):
        yield f"the cache holds {cache.size_mib(cache.root())} MiB in {cache.root()}"


def _missing_lines() -> Iterator[str]:
    tests_by_cause: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for test, missing in _record().missing.items():
        tests_by_cause[missing.what, missing.why, missing.remedy].append(test)
    for (what, why, remedy), tests in tests_by_cause.items():
        yield f"{what}: {why}"
        yield f"    to do: {remedy}"
        yield from (f"    {line}" for line in _named(tests))


def _named(tests: list[str]) -> Iterator[str]:
    yield from tests[:_TESTS_NAMED]
    if (more := len(tests) - _TESTS_NAMED) > 0:
        yield f"and {more} more"


def _skip_lines() -> Iterator[str]:
    for test, why in _record().plain_skips().items():
        yield f"{test}: {why}"


def _ci_complaints(config: pytest.Config) -> Iterator[str]:
    """Why a run with CI=true must not count as passed; nothing elsewhere."""
    if os.environ.get("CI") != "true" or _in_guest() or config.option.collectonly:
        return
    if _record().missing:
        yield f"{len(_record().missing)} tests could not run on this machine"
    if skips := _record().plain_skips():
        yield f"{len(skips)} tests were skipped"
    for tier in _expected_tiers(config):
        if not _record().ran(tier):
            yield f"no test of the tier {tier} ran"


def _expected_tiers(config: pytest.Config) -> list[str]:
    is_narrowed = config.option.keyword or config.option.markexpr
    return [] if is_narrowed else tiers.asked_for(config)


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return text.removeprefix("Skipped: ")
