"""Looks at this node's kernel: sysfs and the log's end each time, processes when something changed."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from schedkit.kernel import observation, processes, sysfs
from schedkit.kernel.processes import Life
from schedkit.kernel.syslog import Syslog
from schedkit.model.api.schedextnode import NodeExit, SchedExtNodeStatus
from schedkit.model.host.processes import Hold
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.log import Exit, LogReading
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.model.node.attachments import Attachments, ended_owner, reported_attachment, with_attachment
from schedkit.model.node.dates import dated
from schedkit.model.node.exits import ended_at_least, untold, with_exit
from schedkit.model.node.report import Look

# an owner that could not be proved is looked for again so often, or more seldom where the walk through all
# processes takes long: at most a five-hundredth of a processor is for that
_UNPROVED_S, _MAX_UNPROVED_S = 60.0, 900.0
_WALK_SHARE = 500


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
        self._walked_at = self._walk_s = 0.0
        self._before_log: KernelState | None = None  # what the kernel ran before the log was last read
        self._exits: tuple[NodeExit, ...] = ()
        self._exits_since: dt.datetime | None = None
        self._told_seq = 0
        self._told_at: dt.datetime | None = None  # what ended earlier was told; None: nobody knows
        self._attached: Attachments = ()
        self._earlier: SchedExtNodeStatus | None = None  # of an earlier agent, until the log is read

    def resume(self, before: SchedExtNodeStatus) -> None:
        """Go on with what an earlier agent of this boot has reported: the log may have forgotten it."""
        self._exits, self._exits_since, self._earlier = before.exits, before.exits_since, before
        self._told_at = before.reported_at
        self._attached = reported_attachment(before)

    def look(self) -> Look:
        """What the kernel runs now, and every end of a scheduler that was seen."""
        # what ended between two readings of the log shows in the states before the one and after the other
        before, before_log = self._before_log, sysfs.read(self._root)
        reading = self._log.look()
        if self._snapshot is not None:
            self._attached = with_attachment(self._attached, self._snapshot)
        self._snapshot = self._look_at_kernel()
        now = dt.datetime.now(dt.UTC)
        if not reading.problem:
            self._before_log = before_log
            self._see_losses(reading, now)
            self._take(reading, before, self._snapshot.kernel, now)
        return Look(self._snapshot, now, self._exits, self._exits_since, reading.problem)

    def _look_at_kernel(self) -> Snapshot:
        """The last answer, as long as nothing says that another would be different."""
        kernel, known = sysfs.read(self._root), self._snapshot
        if known and _is_same_attachment(known.kernel, kernel) and not self._is_to_be_proved_anew(known):
            return known._replace(kernel=kernel)
        began = self._clock()
        found = self._observe(self._root)
        self._walked_at = self._clock()
        self._walk_s = self._walked_at - began
        pid = found.proof.process.pid if found.proof.process else 0
        self._holder = processes.life(self._root, pid) if pid else None
        return found

    def _is_to_be_proved_anew(self, known: Snapshot) -> bool:
        if known.kernel.state is not State.ENABLED:
            return False
        if known.proof.hold in {Hold.UNKNOWN, Hold.NOBODY}:
            wait_s = min(max(_UNPROVED_S, _WALK_SHARE * self._walk_s), _MAX_UNPROVED_S)
            return self._clock() - self._walked_at >= wait_s
        return self._holder is None or not self._holder.is_going_on

    def _see_losses(self, reading: LogReading, now: dt.datetime) -> None:
        """Since when the ends are all there, if the log lost some lines that nobody had read."""
        if reading.lost_before_us is None:
            return
        self._attached = ()  # an end may have been among them
        lost_until = dated(reading.lost_before_us, now, self._clock())
        reported_at = self._earlier.reported_at if self._earlier else None
        if reported_at is None or reported_at < lost_until:
            self._exits_since = lost_until

    def _take(
        self, reading: LogReading, before: KernelState | None, kernel: KernelState, now: dt.datetime
    ) -> None:
        """Keep the ends that are new, unless the kernel says that nothing has ended."""
        if kernel.state is State.DISABLING:
            return  # its words about the end may not be written yet
        new = [each for each in reading.exits if each.seq > self._told_seq]
        self._told_seq = max((each.seq for each in new), default=self._told_seq)
        earlier, self._earlier = self._earlier, None
        not_before, self._told_at = self._told_at, now
        if before is not None and _has_nothing_ended(before, kernel):
            return
        for each in self._untold(new, earlier):
            at = dated(each.time_us, now, self._clock(), not_before=not_before)
            whose, self._attached = ended_owner(self._attached, each.ops)
            self._exits = with_exit(self._exits, each, at, whose)

    def _untold(self, new: Sequence[Exit], earlier: SchedExtNodeStatus | None) -> Sequence[Exit]:
        if earlier is None:
            return new
        # what the kernel had counted before the log was read: later ends may not be in it
        at_least = ended_at_least(earlier, self._before_log) if self._before_log else None
        return untold(new, earlier.exits, at_least=at_least)


def _is_same_attachment(one: KernelState, other: KernelState) -> bool:
    return (one.state, one.ops, one.enable_seq) == (other.state, other.ops, other.enable_seq)


def _has_nothing_ended(earlier: KernelState, now: KernelState) -> bool:
    """Whether one attachment lasted from one look to the next: then what the log says of ends is not true."""
    return (
        earlier.state is State.ENABLED
        and earlier.enable_seq is not None
        and _is_same_attachment(earlier, now)
    )
