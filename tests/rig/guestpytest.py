"""Runs test modules inside a guest and brings the results back as ordinary pytest results.

All tests under tests/kernel for one kind of kernel share a boot. On the host this plugin boots the guest at
the kind's first test, starts pytest in it, and replays each report as it arrives; inside the guest it only
writes the reports down. Fixtures and assertions therefore run next to the kernel they are about. A guest that
dies takes the rest of the module it died in with it; the next module gets a guest of its own.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig import kernels, reporting, vm
from rig.errors import RigError, Unavailable

# A hang is best noticed in the guest, where it fails one test; on the host it fails the rest of the module.
# The host's limit for a test (rig.tiers) has room for two boots and one result.
_TEST_TIMEOUT_S = 300
RESULT_TIMEOUT_S = 480
_PROJECT = Path(__file__).parents[2]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kernels",
        choices=("ci", "all"),
        default="ci",
        help="kernel kinds for tests/kernel: those each module names (ci), or every kind it can run on (all)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kernel(*kinds, has_cx16=False): run this module in a guest with these kernels; a guest with "
        "cx16 (see rig.vm) is another one, and has them alone",
    )
    config.addinivalue_line(
        "markers", "own_guest: this module boots a guest itself, and looks at it from outside"
    )
    reports = os.environ.get(reporting.IN_GUEST)
    config.pluginmanager.register(_Recorder(Path(reports)) if reports else _Player())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One copy of each kernel test per kind."""
    if "kernel_kind" in metafunc.fixturenames and not _has_own_guest(metafunc.definition):
        kinds = _kinds_of(metafunc.definition, everything=metafunc.config.getoption("kernels") == "all")
        metafunc.parametrize("kernel_kind", kinds, scope="module", indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests for a guest by kind, so that a kind needs one boot; all others keep their place.

    Those that boot a guest of their own come last: amid a kind they would end its guest.
    """
    places = [index for index, item in enumerate(items) if _place_of(item) or _has_own_guest(item)]
    by_kind = sorted((items[index] for index in places), key=_rank)
    for index, item in zip(places, by_kind, strict=True):
        items[index] = item


def _rank(item: pytest.Item) -> tuple[int, bool]:
    place = _place_of(item)
    if place is None:
        return len(kernels.KINDS), False
    return list(kernels.KINDS).index(place.machine.kind), place.machine.has_cx16


def _has_own_guest(item: pytest.Item) -> bool:
    return item.get_closest_marker("own_guest") is not None


def _kinds_of(item: pytest.Item, *, everything: bool) -> Sequence[str]:
    marker = item.get_closest_marker("kernel")
    named: Sequence[str] = marker.args if marker else ("7",)
    is_choosy = bool(marker and marker.kwargs)
    if not everything or is_choosy or not any(kernels.KINDS[kind].has_sched_ext for kind in named):
        return named
    return [kind.name for kind in kernels.KINDS.values() if kind.has_sched_ext or kind.name in named]


class _Recorder:
    """Inside the guest: write each report down at once, so that a panic loses nothing that was known."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Set the limits of the guest before those of the tier are."""
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_TEST_TIMEOUT_S))

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = json.dumps(report._to_json(), default=str)  # noqa: SLF001 - what pytest-xdist does, too
        with self._file.open("a") as out:
            out.write(line + "\n")
            out.flush()
            os.fsync(out.fileno())


@dataclass
class _Run:
    """pytest at work in a guest on one module and kernel kind."""

    guest: vm.Guest
    command: str
    reports: Path
    seen: dict[str, list[pytest.TestReport]]
    consumed: int = 0

    def reports_of(self, nodeid: str) -> list[pytest.TestReport]:
        """All reports of one test; waits until the last one is there."""
        deadline = time.monotonic() + RESULT_TIMEOUT_S
        while not self._is_known(nodeid):
            ended = self._has_ended()
            if self._is_known(nodeid):
                break
            if isinstance(ended, vm.GuestError):
                raise ended
            if ended:
                said = self.guest.output(self.command)[-3000:]
                raise vm.GuestError(f"pytest in the guest ended without a result:\n{said}")
            if time.monotonic() > deadline:
                raise self.guest.lateness(self.command, RESULT_TIMEOUT_S)
            time.sleep(0.1)
        return self.seen[nodeid]

    def _is_known(self, nodeid: str) -> bool:
        return _is_complete(self.seen.get(nodeid, []))

    def _has_ended(self) -> bool | vm.GuestError:
        """Whether pytest, or the whole guest, has ended; what was reported before that is taken in first."""
        try:
            ended: bool | vm.GuestError = self.guest.has_ended(self.command)
        except vm.GuestError as death:
            ended = death
        self._take_in()
        return ended

    def _take_in(self) -> None:
        text = self.reports.read_text() if self.reports.exists() else ""
        *lines, _ = text[self.consumed :].split("\n")
        for line in lines:
            self.consumed += len(line) + 1
            report = pytest.TestReport._from_json(json.loads(line))  # noqa: SLF001 - counterpart of the above
            self.seen.setdefault(report.nodeid, []).append(report)


def _is_complete(reports: Sequence[pytest.TestReport]) -> bool:
    return any(report.when == "teardown" for report in reports)


@dataclass(frozen=True)
class _Machine:
    """What a guest is; tests for the same share one."""

    kind: str  # of kernel
    has_cx16: bool = False


@dataclass(frozen=True)
class _Place:
    """Where a test runs: in a guest like this; if the guest dies, so does the module."""

    machine: _Machine
    module: str


class _Player:
    """On the host: boot, start, replay."""

    def __init__(self) -> None:
        self._run: _Run | None = None
        self._machine: _Machine | None = None  # what the guest at hand is
        self._lost: dict[_Place, Exception] = {}  # why tests of a place will never have a result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        place = _place_of(item)
        if place is None:
            return None
        if place not in self._lost and (self._run is None or self._machine != place.machine):
            self._open(place.machine, item)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._results(item, place):
            item.ihook.pytest_runtest_logreport(report=report)
        following = _place_of(nextitem) if nextitem else None
        if following is None or following.machine != place.machine:
            self._close()  # before the test counts as finished: its tier pays for the end of the guest
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _open(self, machine: _Machine, first: pytest.Item) -> None:
        """Boot a guest like that, and start in it all its tests from this one on."""
        self._close()
        rest = first.session.items[first.session.items.index(first) :]
        waiting = [(item, place) for item in rest if (place := _place_of(item)) and place.machine == machine]
        self._prepare(waiting)
        chosen = [item.nodeid for item, place in waiting if place not in self._lost]
        if not chosen:
            return
        try:
            with _limit_as_error():
                self._run = _start(machine, words_for_guest(first.config, chosen))
                self._machine = machine
        except (Unavailable, RigError) as error:
            self._lost |= {place: self._lost.get(place, error) for _, place in waiting}

    def _prepare(self, waiting: Sequence[tuple[pytest.Item, _Place]]) -> None:
        """Let each module prepare; one that cannot loses its own tests, and no others."""
        for place, item in {place: item for item, place in waiting if place not in self._lost}.items():
            try:
                with _limit_as_error():
                    _prepare(item)
            except (Unavailable, RigError) as error:
                self._lost[place] = error

    def _results(self, item: pytest.Item, place: _Place) -> Iterator[pytest.TestReport]:
        try:
            yield from self._await(item, place)
        except kernels.NotOffered as gone:
            reporting.excuse(item.nodeid, gone)
            yield _own_report(item, "skipped", str(gone))
        except Unavailable as missing:
            reporting.record_missing(item.nodeid, missing)
            yield _own_report(item, "skipped", str(missing))
        except RigError as error:
            yield _own_report(item, "failed", str(error))

    def _await(self, item: pytest.Item, place: _Place) -> list[pytest.TestReport]:
        if place in self._lost:
            raise self._lost[place]
        assert self._run is not None
        try:
            with _limit_as_error():
                return self._run.reports_of(item.nodeid)
        except RigError as error:
            self._lost[place] = error
            self._run.guest.kill()
            self._run = None
            raise

    def _close(self) -> None:
        if self._run is None:
            return
        try:
            self._run.guest.stop()
        except pytest.fail.Exception:  # out of time
            self._run.guest.kill()
        self._run = None

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        self._close()


def _prepare(item: pytest.Item) -> None:
    """Call the module's `prepare_on_host`, if it has one: a guest can neither fetch nor compile."""
    module = item.module if isinstance(item, pytest.Function) else None
    if (prepare := getattr(module, "prepare_on_host", None)) is not None:
        prepare()


def _place_of(item: pytest.Item) -> _Place | None:
    """Where a test runs that belongs into a guest, None for all others."""
    callspec = getattr(item, "callspec", None)
    kind, mark = callspec.params.get("kernel_kind") if callspec else None, item.get_closest_marker("kernel")
    machine = _Machine(kind, **(mark.kwargs if mark else {})) if kind else None
    return _Place(machine, item.nodeid.partition("::")[0]) if machine else None


@contextmanager
def _limit_as_error() -> Iterator[None]:
    """Translate what pytest-timeout raises: outside of a test's own phases it would end the whole session."""
    try:
        yield
    except pytest.fail.Exception as limit:
        raise RigError(f"the guest was not done in time: {limit}") from limit


def words_for_guest(config: pytest.Config, nodeids: Sequence[str]) -> list[str]:
    """The command for the guest, which collects anew: the same options give the same copies of each test."""
    options = ["-p", "no:cacheprovider", "-q", "--kernels", config.getoption("kernels")]
    if config.getoption("full"):
        options.append("--full")
    return [sys.executable, "-m", "pytest", *options, *nodeids]


def _start(machine: _Machine, words: Sequence[str]) -> _Run:
    kernel = kernels.obtain(machine.kind)
    guest = vm.Guest(kernel, vm.Settings(name=f"tests-{kernel.kind}", has_cx16=machine.has_cx16))
    guest.__enter__()
    try:
        reports = guest.share / "reports.jsonl"
        own = {reporting.IN_GUEST: f"/mnt/share/{reports.name}", "PYTHONDONTWRITEBYTECODE": "1"}
        own |= kernels.environment_for_guest(kernel)
        settings = [f"{name}={value}" for name, value in own.items()]
        command = f"cd {shlex.quote(str(_PROJECT))} && {shlex.join(['env', *settings, *words])}"
        return _Run(guest, guest.begin(command), reports, {})
    except BaseException:
        guest.kill()
        raise


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
