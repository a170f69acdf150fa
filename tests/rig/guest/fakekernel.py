"""A kernel in memory, with processes, a log and a clock that only moves when somebody waits.

What it shows is proved and judged by the product's own model: the fake knows what is held, not whose it is.
It keeps `rig.guest.kernel_contract`, as the kernels of guests do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from schedkit.model.host.containers import Container
from schedkit.model.host.holders import HeldLink, HeldMap, HeldObjects, SchedulerMap, prove
from schedkit.model.host.processes import Hold, Process
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.log import REASONS, Attachment, Exit, ExitKind, LogReading
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.schedctl.problems.problem import Problem

_REASONS = {kind: reason for reason, kind in REASONS.items()}
_MESSAGES = {ExitKind.ERROR_STALL: "victim[42] failed to run for 2.048s"}


@dataclass
class _Scheduler:
    ops: str
    pid: int
    hold: Hold  # LINK; MAP: registered without one; NOBODY: its link is pinned as well
    number: int  # of its map and of its link


class _Life(NamedTuple):
    kernel: FakeKernel
    process: Process | None

    @property
    def is_going_on(self) -> bool:
        found = self.kernel.processes.get(self.process.pid) if self.process else None
        return found is not None and found is self.process


class FakeKernel:
    """Runs at most one scheduler; `note` is told of all that happens to it."""

    def __init__(self, note: Callable[[str], None] = lambda _: None) -> None:
        self.processes: dict[int, Process] = {}
        self._began_us: dict[int, int] = {}
        self.clock = 0.0
        self.gaps: tuple[str, ...] = ()  # why nobody may look at all that is held
        self.refusal: Exception | None = None  # why nothing can be ejected
        self.walks = 0  # how often all processes were looked at
        self.ejections = 0  # how often what was attached was ejected through the port
        self._note = note
        self._attached: _Scheduler | None = None
        self._loaded: list[_Scheduler] = []
        self._log: list[Exit | Attachment] = []
        self._enabled = 0
        self._numbers, self._looks = itertools.count(1), itertools.count(1)
        self._due: list[tuple[float, Callable[[], object]]] = []

    # What happens to it

    def began(self, container: Container) -> None:
        """A container's first process begins."""
        assert container.pid
        self.spawn(container.pid, container.name, f"/machine.slice/libpod-{container.id}.scope")

    def ended(self, container: Container) -> None:
        """A container's processes end."""
        self.end(container.pid or 0)

    def spawn(self, pid: int, command: str, cgroup: str = "/user.slice") -> None:
        """A process begins; one of that number is another."""
        self.processes[pid] = Process(pid, (1,), command, (cgroup,))
        self._began_us[pid] = self._time_us

    def end(self, pid: int) -> None:
        """A process ends, and with it what it holds."""
        self.processes.pop(pid, None)
        for each in [each for each in self._loaded if each.pid == pid and each.hold is Hold.LINK]:
            self._loaded.remove(each)
            if each is self._attached:
                self._detach(ExitKind.UNREG)

    def attach(self, pid: int, ops: str, hold: Hold = Hold.LINK) -> None:
        """A process attaches a scheduler, and lets go of what it held before; not while one is attached."""
        if self._attached:
            return
        self._loaded = [each for each in self._loaded if each.pid != pid]
        self._attached = _Scheduler(ops, pid, hold, next(self._numbers))
        self._loaded.append(self._attached)
        self._enabled += 1
        self._log.append(Attachment(ops, len(self._log), self._time_us))
        self._note(f"runs {ops}")

    def throw_out(self, kind: ExitKind) -> None:
        """The kernel ejects what is attached; its process goes on, and holds its link."""
        self._detach(kind)

    def let_go(self) -> None:
        """The program of what is attached detaches it in order."""
        if self._attached:
            self._loaded.remove(self._attached)
        self._detach(ExitKind.UNREG)

    def _detach(self, kind: ExitKind) -> None:
        if self._attached is None:
            return
        ops, self._attached = self._attached.ops, None
        message = _MESSAGES.get(kind, "")
        self._log.append(Exit(ops, kind, _REASONS[kind], message, len(self._log), self._time_us))
        self._note(f"runs its own scheduler ({ops}: {_REASONS[kind]})")

    def after(self, seconds: float, happens: Callable[[], object]) -> None:
        """Something happens in so many seconds from now, while somebody waits."""
        self._due.append((self.clock + seconds, happens))
        self._due.sort(key=lambda each: each[0])

    # The port

    def observe(self, *, is_thorough: bool = False) -> Snapshot:
        kernel = self.state()
        if kernel.state is not State.ENABLED and not is_thorough:
            return Snapshot(kernel)
        self.walks += 1
        held = self._held()
        return Snapshot(kernel, prove(kernel, held), held)

    def state(self) -> KernelState:
        if self._attached is None:
            return KernelState(State.DISABLED, enable_seq=self._enabled)
        # a scheduler works while it is looked at: two looks are never equal
        events = {"SCX_EV_REFILL_SLICE_DFL": next(self._looks)}
        return KernelState(State.ENABLED, self._attached.ops, self._enabled, events=events)

    def log(self, *, after_seq: int = -1) -> LogReading:
        told = [each for each in self._log if each.seq > after_seq]
        exits = tuple(each for each in told if isinstance(each, Exit))
        attachments = tuple(each for each in told if isinstance(each, Attachment))
        return LogReading(exits, (), len(self._log) - 1, attachments=attachments)

    def life(self, pid: int | None) -> _Life:
        return _Life(self, self.processes.get(pid or 0))

    def began_us(self, container: Container) -> int | None:
        if container.pid in self.processes:
            return self._began_us[container.pid]
        return (
            0 if container.started_at else None
        )  # the runtime's clock is another: all of the log is about it

    def end_process(self, process: Process, *, grace_s: float) -> None:  # noqa: ARG002 - it ends at once
        holders = self._held().processes
        if (process.pid, process.command) in {(each.pid, each.command) for each in holders}:
            self.end(process.pid)

    def eject(self, *, is_blind: bool) -> None:
        attached = self._attached
        if attached is None:
            return
        if not is_blind and self.observe().proof.hold is not Hold.NOBODY:
            raise Problem(f"the kernel now runs {attached.ops}, and a process may hold it")
        if self.refusal:
            raise self.refusal
        self.ejections += 1
        if attached.hold is not Hold.MAP and attached.pid in self.processes:
            self._detach(ExitKind.SYSRQ)  # its process goes on, and holds its link
        else:
            self.let_go()

    def unregister(self, scheduler: SchedulerMap) -> None:
        if self._attached is None:
            self._loaded = [each for each in self._loaded if each.number != scheduler.map_id]

    @contextmanager
    def hearing(self, *, poll_s: float) -> Iterator[Callable[[float], None]]:  # noqa: ARG002 - it is heard
        yield self._wait

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        until = self.clock + seconds
        while self._due and self._due[0][0] <= until:
            self._go_on()
        self.clock = until

    def _wait(self, seconds: float) -> None:
        """Until the next thing happens, as the kernel announces it."""
        if self._due and self._due[0][0] <= self.clock + seconds:
            self._go_on()
        else:
            self.clock += seconds

    def _go_on(self) -> None:
        self.clock, happens = self._due.pop(0)
        happens()

    @property
    def _time_us(self) -> int:
        return int(self.clock * 1e6)

    def _held(self) -> HeldObjects:
        alive = [each for each in self._loaded if each.pid in self.processes]
        links = [each for each in alive if each.hold is not Hold.MAP]
        pinned = {each.number for each in self._loaded if each.hold is Hold.NOBODY and each not in alive}
        return HeldObjects(
            tuple(self.processes[pid] for pid in sorted({each.pid for each in alive})),
            tuple(HeldLink(each.pid, each.number, each.number) for each in links),
            tuple(HeldMap(each.pid, each.number) for each in alive),
            tuple(
                SchedulerMap(each.number, each.ops, is_registered=each.hold is Hold.MAP)
                for each in self._loaded
            ),
            frozenset(pinned),
            self.gaps,
        )
