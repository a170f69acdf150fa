"""What a test run says at its end: what ran in each tier, what could not run, why, and what to do about it.

A pytest plugin. `Unavailable` in a test or a fixture becomes a skip with a remedy. With CI=true a run that
left anything out ends non-zero: there, a test that did not run has not passed.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from dataclasses import astuple, dataclass, field

import pytest

from rig import cache, processes, tiers
from rig.errors import RigError, Unavailable

IN_GUEST = "RIG_GUEST_REPORTS"  # set only inside a guest: the file for its reports
_TESTS_NAMED = 3  # per entry of the list; the rest is counted


@dataclass
class Record:
    """What one session did, as far as its summary is concerned."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    missing: dict[str, Unavailable] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    excused: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    counted_until_s: float = 0

    def add(self, report: pytest.TestReport) -> None:
        """Take in one phase of one test."""
        tier = tiers.of(report.nodeid) or "other"
        if (missing := getattr(report, "unavailable", None)) is not None:
            self.missing[report.nodeid] = Unavailable(*missing)
        if report.failed:
            self.outcomes[tier]["failed"] += 1
        elif report.skipped and not hasattr(report, "wasxfail"):
            self.outcomes[tier]["skipped"] += 1
            self.skipped[report.nodeid] = _reason(report)
        elif report.when == "call":
            self.outcomes[tier]["passed"] += 1

    def finish(self, test: str, now_s: float) -> None:
        """Count all time since the test before for this one's tier, so that the tiers add up to the session.

        What pytest measures itself leaves out what a plugin does between tests: to boot a guest, to stop it.
        """
        self.seconds[tiers.of(test) or "other"] += now_s - self.counted_until_s
        self.counted_until_s = now_s

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
    if _sessions and text not in _record().notes:
        _record().notes.append(text)


def record_missing(test: str, missing: Unavailable) -> None:
    """List a test among those that could not run; for plugins that report without pytest's own protocol."""
    _record().missing[test] = missing


def excuse(test: str, gone: Unavailable) -> None:
    """Name in the summary what a test cannot have because nobody offers it; CI is content with that."""
    note(f"{gone.what}: {gone.why}, so its tests did not run; {gone.remedy}")
    _record().excused.add(test)


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


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    _record().counted_until_s = time.monotonic()


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
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _record().add(report)


def pytest_runtest_logfinish(nodeid: str) -> None:
    _record().finish(nodeid, time.monotonic())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
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
        yield "what ran", [*_tier_table(), *_record().notes, *_cache_line()]
    if unable := [*_missing_lines(), *_skip_lines()]:
        yield "what could not run", unable
    if complaints := list(_ci_complaints(config)):
        yield "not good enough for CI", complaints


def _tier_table() -> Iterator[str]:
    yield f"{'tier':<10}{'passed':>8}{'failed':>8}{'skipped':>9}{'time':>9}"
    for tier in (*tiers.TIERS, "other"):
        if counts := _record().outcomes.get(tier):
            numbers = f"{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
            yield f"{tier:<10}{numbers}{_record().seconds[tier]:>7.1f} s"


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
