"""The port to a machine's kernel: `this_kernel` is the one of this machine, tests have one in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from schedkit.model.host.containers import Container
from schedkit.model.host.holders import SchedulerMap
from schedkit.model.host.processes import Process
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.log import LogReading
from schedkit.model.kernel.sched_ext import KernelState


class Life(Protocol):
    """A process as it was when it was first looked at."""

    @property
    def is_going_on(self) -> bool:
        """Whether it is there still, and not another with its number."""


class Kernel(Protocol):
    """A machine's kernel with its processes and its clock: what a change sees, and what it does to them."""

    def observe(self, *, is_thorough: bool = False) -> Snapshot:
        """What runs and who holds it; if `is_thorough`, also what else is held while nothing is attached."""

    def state(self) -> KernelState:
        """What it says about sched_ext, without a look at processes: that takes long."""

    def log(self, *, after_seq: int = -1) -> LogReading:
        """What its log says about sched_ext, after the record of that number."""

    def life(self, pid: int | None) -> Life:
        """The process of that number; None: one that has ended."""

    def began_us(self, container: Container) -> int | None:
        """When its program began, by the clock of the log; None if it is not known."""

    def end_process(self, process: Process, *, grace_s: float) -> None:
        """SIGTERM, and SIGKILL for what still runs after that time; it may be gone already."""

    def eject(self, *, is_blind: bool) -> None:
        """Take the scheduler out of the kernel; unless `is_blind`, only one that no process holds."""

    def unregister(self, scheduler: SchedulerMap) -> None:
        """Remove what an ejected scheduler has left; it may be gone already."""

    def hearing(self, *, poll_s: float) -> AbstractContextManager[Callable[[float], None]]:
        """A way to wait until it announces a change; where it cannot be heard, for `poll_s` at most."""

    def now(self) -> float:
        """Seconds that only grow."""

    def sleep(self, seconds: float) -> None:
        """Let that time pass."""
