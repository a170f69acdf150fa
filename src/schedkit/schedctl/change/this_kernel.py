"""The kernel of this machine.

`status` imports this: what only changes ask for is imported when it is asked for.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.kernel import observation, sysfs
from schedkit.model.host.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from schedkit.model.host.containers import Container
    from schedkit.model.host.holders import SchedulerMap
    from schedkit.model.host.processes import Process
    from schedkit.model.kernel.log import LogReading
    from schedkit.model.kernel.sched_ext import KernelState
    from schedkit.schedctl.change.kernel_port import Life


class ThisKernel:
    """The kernel whose files are below a folder: `/`, a mount of the host, or what a test wrote."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def observe(self, *, is_thorough: bool = False) -> Snapshot:
        """What runs and who holds it; see the port."""
        return observation.observe(self._root, is_thorough=is_thorough)

    def state(self) -> KernelState:
        """What it says about sched_ext."""
        return sysfs.read(self._root)

    def log(self, *, after_seq: int = -1) -> LogReading:
        """What its log says about sched_ext."""
        from schedkit.kernel import kmsg  # noqa: PLC0415 - see above

        return kmsg.read(self._root, after_seq=after_seq)

    def life(self, pid: int | None) -> Life:
        """The process of that number."""
        from schedkit.kernel import processes  # noqa: PLC0415 - as above

        return processes.life(self._root, pid or 0)

    def began_us(self, container: Container) -> int | None:
        """When its program began, by the clock of the log."""
        from schedkit.schedctl.change import why_detached  # noqa: PLC0415 - as above

        return why_detached.began_us(self._root, container)

    def end_process(self, process: Process, *, grace_s: float) -> None:
        """SIGTERM, then SIGKILL."""
        from schedkit.schedctl.change import forced_ends  # noqa: PLC0415 - as above

        forced_ends.end_process(self._root, process, grace_s=grace_s)

    def eject(self, *, is_blind: bool) -> None:
        """Take the scheduler out of the kernel; see the port."""
        from schedkit.schedctl.change import forced_ends  # noqa: PLC0415 - as above

        forced_ends.eject(self._root, is_blind=is_blind)

    def unregister(self, scheduler: SchedulerMap) -> None:
        """Remove what an ejected scheduler has left."""
        from schedkit.schedctl.change import forced_ends  # noqa: PLC0415 - as above

        forced_ends.unregister(self._root, scheduler)

    def hearing(self, *, poll_s: float) -> AbstractContextManager[Callable[[float], None]]:
        """A way to wait until it announces a change; see the port."""
        from schedkit.kernel import uevents  # noqa: PLC0415 - as above

        return uevents.hearing(poll_s=poll_s)

    def now(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let that time pass."""
        time.sleep(seconds)
