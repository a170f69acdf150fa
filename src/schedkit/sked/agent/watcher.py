"""Looks at this node's kernel: sysfs and the log's end each time, processes when something changed."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path

from schedkit.kernel import observation, processes, sysfs
from schedkit.kernel.processes import Life
from schedkit.kernel.syslog import Syslog
from schedkit.model.api.schedextnode import NodeExit, SchedExtNodeStatus
from schedkit.model.host.processes import Hold
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.log import Exit, LogReading
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.model.node.report import Look, with_exit

# an owner that could not be proved is looked for again so often: it costs a walk through all processes
_UNPROVED_S = 60.0


class Watcher:
    """What the kernel shows from one look to the next."""

    def __init__(
        self,
        root: Path,
        log: Syslog,
        *,
        observe: Callable[[Path], Snapshot] = observation.observe,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root, self._log, self._observe, self._clock = root, log, observe, clock
        self._snapshot: Snapshot | None = None
        self._holder: Life | None = None
        self._walked_at = 0.0
        self._exits: tuple[NodeExit, ...] = ()
        self._exits_since: dt.datetime | None = None
        self._told_seq, self._told_until_us = 0, -1

    def resume(self, before: SchedExtNodeStatus) -> None:
        """Go on with what an earlier agent of this boot has reported: the log may have forgotten it."""
        self._exits, self._exits_since = before.exits, before.exits_since
        self._told_until_us = max((each.log_time for each in before.exits), default=-1)

    def look(self) -> Look:
        """What the kernel runs now, and every end of a scheduler that was seen."""
        earlier = self._snapshot.kernel if self._snapshot else None
        self._snapshot = self._look_at_kernel()
        reading = self._log.look()
        now = dt.datetime.now(dt.UTC)
        self._take(reading, earlier, now)
        return Look(self._snapshot, now, self._exits, self._exits_since, reading.problem)

    def _look_at_kernel(self) -> Snapshot:
        """The last answer, as long as nothing says that another would be different."""
        kernel, known = sysfs.read(self._root), self._snapshot
        if known and _is_same_attachment(known.kernel, kernel) and not self._is_to_be_proved_anew(known):
            return known._replace(kernel=kernel)
        self._walked_at = self._clock()
        found = self._observe(self._root)
        pid = found.proof.process.pid if found.proof.process else 0
        self._holder = processes.life(self._root, pid) if pid else None
        return found

    def _is_to_be_proved_anew(self, known: Snapshot) -> bool:
        if known.kernel.state is not State.ENABLED:
            return False
        if known.proof.hold in {Hold.UNKNOWN, Hold.NOBODY}:
            return self._clock() - self._walked_at >= _UNPROVED_S
        return self._holder is None or not self._holder.is_going_on

    def _take(self, reading: LogReading, earlier: KernelState | None, now: dt.datetime) -> None:
        """Keep the ends that are new, unless the kernel says that nothing has ended."""
        new = [each for each in reading.exits if each.seq > self._told_seq]
        self._told_seq = max((each.seq for each in new), default=self._told_seq)
        if reading.problem:
            self._exits_since = now
        if earlier is not None and self._snapshot and _has_nothing_ended(earlier, self._snapshot.kernel):
            return
        for each in new:
            if each.time_us == 0 or each.time_us > self._told_until_us:
                self._exits = with_exit(self._exits, each, self._date(each, now))

    def _date(self, ended: Exit, now: dt.datetime) -> dt.datetime:
        """By this machine's clock; when it was seen, if the log has no times."""
        if not ended.time_us:
            return now
        age_s = max(0.0, time.monotonic() - ended.time_us / 1_000_000)
        return (now - dt.timedelta(seconds=age_s)).replace(microsecond=0)


def _is_same_attachment(one: KernelState, other: KernelState) -> bool:
    return (one.state, one.ops, one.enable_seq) == (other.state, other.ops, other.enable_seq)


def _has_nothing_ended(earlier: KernelState, now: KernelState) -> bool:
    """Whether one attachment lasted from one look to the next: then what the log says of ends is not true."""
    return (
        earlier.state is State.ENABLED
        and earlier.enable_seq is not None
        and _is_same_attachment(earlier, now)
    )
