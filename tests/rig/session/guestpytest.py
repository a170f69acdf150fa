"""Runs test modules inside a guest and brings the results back as ordinary pytest results.

All tests under tests/kernel for one kind of kernel share a boot. On the host this plugin boots the first
guest when the session begins, has the guests work through their tests beside the host's own (`guestruns`),
and replays each report when its test's turn comes; inside the guest it only writes the reports down. Fixtures
and assertions therefore run next to the kernel they are about. Tests that boot guests themselves are
replayed in the same way from a process of their own, unless the session has nothing else to do meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig.base.errors import RigError, Unavailable
from rig.guest import kernels
from rig.session import reporting, tiers
from rig.session.guestruns import HOST, TEST_TIMEOUT_S, Errand, Guests, Machine, Place, limit_as_error


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kernels",
        choices=("ci", "all"),
        default="ci",
        help="kernel kinds for tests/kernel: those each module names (ci), or every kind it can run on (all)",
    )
    parser.addoption(
        "--reports", type=Path, help="the file for another session, which tells what came of this"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kernel(*kinds, only=False): run this module in a guest with these kernels; with `--kernels all` on "
        "every other that has sched_ext as well, unless only these will do",
    )
    config.addinivalue_line(
        "markers", "own_guest: this module boots a guest itself, and looks at it from outside"
    )
    config.addinivalue_line(
        "markers", "alone: this module compares the whole machine before and after, so nothing may run beside"
    )
    for plugin in _plugins(config):
        config.pluginmanager.register(plugin)


def _plugins(config: pytest.Config) -> list[object]:
    if in_guest := os.environ.get(reporting.IN_GUEST):
        return [_Recorder(Path(in_guest)), _GuestLimits()]
    if beside := config.getoption("reports"):
        return [_Recorder(beside)]
    player = _Player()
    return [player, _Tender(player)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One copy of each kernel test per kind."""
    if "kernel_kind" in metafunc.fixturenames and not _has_own_guest(metafunc.definition):
        kinds = _kinds_of(metafunc.definition, everything=metafunc.config.getoption("kernels") == "all")
        metafunc.parametrize("kernel_kind", kinds, scope="module", indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what the host runs itself, then the results of its guests, then of what boots guests itself.

    So these have worked beside the host for as long as possible. What must be alone comes when all are gone.
    """
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> tuple[int, int]:
    place = place_of(item)
    if place is None:
        return (3 if _must_be_alone(item) else 0), 0
    if place.machine == HOST:
        return 2, 0
    return 1, list(kernels.KINDS).index(place.machine.kind)


def _has_own_guest(item: pytest.Item) -> bool:
    return item.get_closest_marker("own_guest") is not None or tiers.of(item.nodeid) == "e2e"


def _must_be_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def _kinds_of(item: pytest.Item, *, everything: bool) -> Sequence[str]:
    marker = item.get_closest_marker("kernel")
    named: Sequence[str] = marker.args if marker else ("7",)
    is_choosy = marker is not None and marker.kwargs.get("only", False)
    if not everything or is_choosy or not any(kernels.KINDS[kind].has_sched_ext for kind in named):
        return named
    return [kind.name for kind in kernels.KINDS.values() if kind.has_sched_ext or kind.name in named]


class _Recorder:
    """Where tests run for another session: write each report down at once, so that a panic loses nothing."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporting.send_notes_with(report)
        line = json.dumps(report._to_json(), default=str)  # noqa: SLF001 - what pytest-xdist does, too
        with self._file.open("a") as out:
            out.write(line + "\n")
            out.flush()
            os.fsync(out.fileno())


class _GuestLimits:
    """Inside the guest: let a hang fail one test before the host gives up on the module."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Come before the tier's limits are set."""
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


class _Player:
    """On the host: replay what the guests reported, and what ran beside."""

    guests: Guests | None = None  # none: nothing belongs into one
    _places: Mapping[str, Place]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        errand = _errand(session)
        if errand.places and not session.config.option.collectonly:
            self.guests, self._places = Guests(errand), errand.places
            reporting.count_apart(self.guests)

    def is_for(self, item: pytest.Item) -> bool:
        """Whether the test runs elsewhere."""
        return self.guests is not None and item.nodeid in self._places

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if self.guests is None or not self.is_for(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._results(item, self.guests):
            item.ihook.pytest_runtest_logreport(report=report)
        if nextitem is None or not self.is_for(nextitem):
            self.guests.close()  # before the test counts as finished: its tier pays for the end of the guest
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _results(self, item: pytest.Item, guests: Guests) -> Iterator[pytest.TestReport]:
        try:
            with limit_as_error():
                yield from guests.reports_of(item.nodeid)
        except kernels.NotOffered as gone:
            reporting.excuse(item.nodeid, gone)
            yield _own_report(item, "skipped", str(gone))
        except Unavailable as missing:
            reporting.record_missing(item.nodeid, missing)
            yield _own_report(item, "skipped", str(missing))
        except RigError as error:
            yield _own_report(item, "failed", str(error))

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        if self.guests is not None:
            self.guests.close()


class _Tender:
    """On the host: look after the guests between two tests, on nobody's time."""

    def __init__(self, player: _Player) -> None:
        self._player = player

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of pytest-timeout: a boot is not the test's fault
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if self._player.guests is not None and not self._player.is_for(item):
            self._player.guests.tend()
        return (yield)


def _errand(session: pytest.Session) -> Errand:
    has_nothing_else = all(_has_own_guest(item) for item in session.items)
    found = {item.nodeid: place_of(item) for item in session.items}
    places = {
        test: place
        for test, place in found.items()
        if place and not (has_nothing_else and place.machine == HOST)
    }
    modules = {place_of(item): item for item in session.items}

    def words(tests: Sequence[str]) -> list[str]:
        return words_for(session.config, tests)

    return Errand(places, words, lambda place: _prepare(modules[place]))


def _prepare(item: pytest.Item) -> None:
    """Call the module's `prepare_on_host`, if it has one: a guest can neither fetch nor compile."""
    module = item.module if isinstance(item, pytest.Function) else None
    if (prepare := getattr(module, "prepare_on_host", None)) is not None:
        with _limited(item):
            prepare()


@contextmanager
def _limited(item: pytest.Item) -> Iterator[None]:
    """Let the test's own limit hold also between two tests, where pytest-timeout is not at work."""
    mark = item.get_closest_marker("timeout")
    running_s = signal.getitimer(signal.ITIMER_REAL)[0]
    if mark is None or 0 < running_s <= mark.args[0]:
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"Timeout (>{mark.args[0]:.1f}s)"))
    signal.setitimer(signal.ITIMER_REAL, mark.args[0])
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, running_s)
        signal.signal(signal.SIGALRM, before)


def place_of(item: pytest.Item) -> Place | None:
    """Where a test runs that is not the host's own, None for all others."""
    module = item.nodeid.partition("::")[0]
    if _has_own_guest(item):
        return None if _must_be_alone(item) else Place(HOST, module)
    callspec = getattr(item, "callspec", None)
    kind = callspec.params.get("kernel_kind") if callspec else None
    return Place(Machine(kind), module) if kind else None


def words_for(config: pytest.Config, nodeids: Sequence[str]) -> list[str]:
    """The command, which collects anew: the same options give the same copies of each test."""
    options = ["-p", "no:cacheprovider", "-q", "--kernels", config.getoption("kernels")]
    if config.getoption("full"):
        options.append("--full")
    return ["env", f"--chdir={config.rootpath}", sys.executable, "-m", "pytest", *options, *nodeids]


def _own_report(item: pytest.Item, outcome: str, why: str) -> pytest.TestReport:
    """A report for a test that never got a result from its guest."""
    path, line, _ = item.location
    longrepr = (path, line or 0, f"Skipped: {why}") if outcome == "skipped" else why
    return pytest.TestReport(
        item.nodeid,
        item.location,
        dict.fromkeys(item.keywords, 1),
        outcome,  # type: ignore[arg-type]  # a Literal
        longrepr,
        "setup",
    )
