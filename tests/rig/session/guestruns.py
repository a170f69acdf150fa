"""Test runs inside guests, one guest after the other, each beside whatever the host does meanwhile.

A guest under emulation keeps one core busy and needs nobody: it is booted, told which tests are its own, and
looked after now and then. What it reports is kept until somebody asks for it. A guest that dies takes the
rest of the module it died in with it; the other modules get another guest. Tests that boot guests themselves
work beside the host as well, last of all, in a process of their own.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from rig.base import processes
from rig.base.errors import RigError, Unavailable
from rig.base.processes import Process
from rig.guest import kernels, vm
from rig.session import reporting

# A hang is best noticed in the guest, where it fails one test; on the host it fails the rest of the module.
# The host's limit for a test (rig.session.tiers) has room for two boots and one result.
TEST_TIMEOUT_S = 300
RESULT_TIMEOUT_S = 480
# A process on the host ends its own tests when they hang, and cleans up what they made
SILENCE_TIMEOUT_S = 2700
CLEANUP_S = 90
LOOK_EVERY_S = 0.5  # a look costs a millisecond, and there are thousands of tests to look after
_PROJECT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Machine:
    """What a guest is; tests for the same share one."""

    kind: str  # of kernel

    @property
    def tier(self) -> str:
        """The tier that pays for it."""
        return "e2e" if self == HOST else "kernel"


HOST = Machine("host")  # no guest, but a process of its own for tests that boot guests themselves


@dataclass(frozen=True)
class Place:
    """Where a test runs: in a guest like this; if the guest dies, so does the module."""

    machine: Machine
    module: str


@dataclass(frozen=True)
class Errand:
    """The tests of a session that belong into guests, in their order, and how a guest gets at them."""

    places: Mapping[str, Place]  # by test
    words: Callable[[Sequence[str]], Sequence[str]]  # the command that runs these tests elsewhere
    prepare: Callable[[Place], None]  # what a module needs from the host before its guest boots


class Run(Protocol):
    """A guest, or a process, that works on its tests."""

    def news(self) -> Iterator[pytest.TestReport]:
        """What was reported since the last look."""

    def require_progress(self) -> None:
        """Raise `RigError` when what is missing will not come."""

    def cpu_seconds(self) -> float:
        """What it has cost this machine so far."""

    def stop(self) -> None:
        """Let it end, or end it by force."""

    def kill(self) -> None:
        """End it by force."""


class Guests:
    """All guests of a session, one at a time: two of them beside the host's own tests would starve."""

    def __init__(
        self,
        errand: Errand,
        start: Callable[[Machine, Sequence[str]], Run] | None = None,
        *,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._errand, self._start, self._look_every_s = errand, start or _started, look_every_s
        self._reports: dict[str, list[pytest.TestReport]] = {}
        self._lost: dict[Place, Exception] = {}  # why tests of a place will never have a result
        self._run: Run | None = None
        self._machine: Machine | None = None  # what the guest at hand is
        self._looked_s = 0.0
        self.costs: dict[str, reporting.Cost] = {}  # by tier
        self._booted_s = 0.0

    def tend(self) -> None:
        """Take in what was reported, end a guest that is done, boot the next; seldom more than a glance."""
        if time.monotonic() - self._looked_s >= self._look_every_s:
            self._look()
            self._looked_s = time.monotonic()

    def reports_of(self, test: str) -> list[pytest.TestReport]:
        """All reports of one test, as soon as the last one is there; raises why there will never be any."""
        place = self._errand.places[test]
        while not self._is_known(test):
            if place in self._lost:
                raise self._lost[place]
            self._look()
            time.sleep(0.1)
        return self._reports[test]

    def close(self) -> None:
        """End the guest at hand, if there is one: by force if it is still at work."""
        if self._run is not None:
            self._end(self._run.kill if self._waiting(self._machine) else self._run.stop)

    def _look(self) -> None:
        if self._run is None:
            self._open()
        elif not self._waiting(self._machine):
            self.close()  # before the next boots, and as soon as nothing is left for it
            self._open()
        else:
            self._listen(self._run)

    def _is_known(self, test: str) -> bool:
        return any(report.when == "teardown" for report in self._reports.get(test, ()))

    def _waiting(self, machine: Machine | None = None) -> list[str]:
        """Tests without a result, of this machine or of any."""
        return [
            test
            for test, place in self._errand.places.items()
            if place not in self._lost and machine in {None, place.machine} and not self._is_known(test)
        ]

    def _open(self) -> None:
        """Boot the next guest that has something to do, and start in it all that waits for it."""
        for machine in dict.fromkeys(self._errand.places[test].machine for test in self._waiting()):
            self._prepare(machine)
            if tests := self._waiting(machine):
                self._boot(machine, tests)
                return

    def _prepare(self, machine: Machine) -> None:
        """Let each module prepare; one that cannot loses its own tests, and no others."""
        for place in dict.fromkeys(self._errand.places[test] for test in self._waiting(machine)):
            try:
                with limit_as_error():
                    self._errand.prepare(place)
            except (Unavailable, RigError) as error:
                self._lost[place] = error

    def _boot(self, machine: Machine, tests: Sequence[str]) -> None:
        self._booted_s, self._machine = time.monotonic(), machine
        self.costs.setdefault(machine.tier, reporting.Cost()).begin()
        try:
            with limit_as_error():
                self._run = self._start(machine, self._errand.words(tests))
        except (Unavailable, RigError) as error:
            self._count(cpu_s=0)
            self._lost |= {self._errand.places[test]: error for test in tests}

    def _listen(self, run: Run) -> None:
        try:
            with limit_as_error():
                for report in run.news():
                    self._reports.setdefault(report.nodeid, []).append(report)
                if self._waiting(self._machine):
                    run.require_progress()
        except RigError as error:
            # tests run in their order: the first without a result is where it died
            self._lost[self._errand.places[self._waiting(self._machine)[0]]] = error
            self._end(run.kill)

    def _end(self, end: Callable[[], None]) -> None:
        """End the guest at hand in that way, and count what it took."""
        assert self._run is not None
        cpu_s = self._run.cpu_seconds()
        end()
        self._run = None
        self._count(cpu_s)

    def _count(self, cpu_s: float) -> None:
        assert self._machine is not None
        self.costs[self._machine.tier].add(time.monotonic() - self._booted_s, cpu_s)

    def cpu_seconds(self) -> float:
        """What all guests have spent so far, the one at hand included."""
        ended_s = sum(cost.cpu_s for cost in self.costs.values())
        return ended_s + (self._run.cpu_seconds() if self._run else 0)


@dataclass
class _Reports:
    """The file into which a run writes its reports, read as it grows."""

    file: Path
    consumed: int = 0
    heard_s: float = field(default_factory=time.monotonic)

    def news(self) -> Iterator[pytest.TestReport]:
        text = self.file.read_text() if self.file.exists() else ""
        *lines, _ = text[self.consumed :].split("\n")
        for line in lines:
            self.consumed += len(line) + 1
            self.heard_s = time.monotonic()
            yield pytest.TestReport._from_json(json.loads(line))  # noqa: SLF001 - what pytest-xdist does, too

    def silence_s(self) -> float:
        return time.monotonic() - self.heard_s


@dataclass
class _GuestRun:
    """pytest at work in a virtual machine."""

    guest: vm.Guest
    command: str
    reports: _Reports
    death: vm.GuestError | None = None
    has_ended: bool = False

    def news(self) -> Iterator[pytest.TestReport]:
        # the end is asked for first: what is read after it is all there will be
        try:
            self.has_ended = self.guest.has_ended(self.command)
        except vm.GuestError as death:
            self.death = death
        yield from self.reports.news()

    def cpu_seconds(self) -> float:
        return self.guest.cpu_seconds()

    def stop(self) -> None:
        try:
            self.guest.stop()
        except pytest.fail.Exception:  # out of time
            self.guest.kill()

    def kill(self) -> None:
        self.guest.kill()

    def require_progress(self) -> None:
        if self.death is not None:
            raise self.death
        if self.has_ended:
            said = self.guest.output(self.command)[-3000:]
            raise vm.GuestError(f"pytest in the guest ended without a result:\n{said}")
        if self.reports.silence_s() > RESULT_TIMEOUT_S:
            raise self.guest.lateness(self.command, RESULT_TIMEOUT_S)


@dataclass
class _HostRun:
    """pytest at work in a process of its own."""

    process: Process
    reports: _Reports
    cpu_s: float = 0
    has_ended: bool = False

    def news(self) -> Iterator[pytest.TestReport]:
        self.cpu_seconds()  # while it can be asked: what has ended counts as spent by this process
        self.has_ended = self.process.exit_code() is not None
        yield from self.reports.news()

    def cpu_seconds(self) -> float:
        self.cpu_s = max(self.cpu_s, processes.cpu_seconds(self.process.pid))
        return self.cpu_s

    def stop(self) -> None:
        if self.process.wait(CLEANUP_S) is None:
            self.kill()

    def kill(self) -> None:
        self.process.stop(grace_s=CLEANUP_S)

    def require_progress(self) -> None:
        if self.has_ended:
            raise RigError(f"pytest beside this one ended without a result:\n{self.process.tail(60)}")
        if self.reports.silence_s() > SILENCE_TIMEOUT_S:
            raise RigError(f"pytest beside this one has been silent too long:\n{self.process.tail(60)}")


@contextmanager
def limit_as_error() -> Iterator[None]:
    """Translate what pytest-timeout raises: outside of a test's own phases it would end the whole session."""
    try:
        yield
    except pytest.fail.Exception as limit:
        raise RigError(f"the guest was not done in time: {limit}") from limit


def _started(machine: Machine, words: Sequence[str]) -> Run:
    return _beside(words) if machine == HOST else _booted(machine, words)


def _beside(words: Sequence[str]) -> _HostRun:
    folder = processes.run_folder("tests-beside")
    reports = folder / "reports.jsonl"
    return _HostRun(Process([*words, "--reports", reports], log=folder / "pytest.log"), _Reports(reports))


def _booted(machine: Machine, words: Sequence[str]) -> _GuestRun:
    _compile()
    kernel = kernels.obtain(machine.kind)
    guest = vm.Guest(kernel, vm.Settings(name=f"tests-{kernel.kind}"))
    guest.__enter__()
    try:
        reports = guest.share / "reports.jsonl"
        # plugins that nobody names are not for guests: to import them takes seconds there
        lean = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_timeout"}
        own = lean | {reporting.IN_GUEST: f"/mnt/share/{reports.name}", "PYTHONDONTWRITEBYTECODE": "1"}
        own |= kernels.environment_for_guest(kernel)
        settings = [f"{name}={value}" for name, value in own.items()]
        command = guest.begin(shlex.join(["env", *settings, *words]))
        return _GuestRun(guest, command, _Reports(reports))
    except BaseException:
        guest.kill()
        raise


def _compile() -> None:
    """Compile all Python of the project: guests do so slowly, whenever a program starts, and keep nothing."""
    folders = [_PROJECT / "src", _PROJECT / "tests"]
    processes.run([sys.executable, "-m", "compileall", "-q", "-j0", *folders], timeout_s=120, check=False)
