"""How schedulers ended, and when they come and go, as the kernel tells it."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple


class ExitKind(IntEnum):
    """How a scheduler came to its end, by the kernel's number for it."""

    UNKNOWN = 0  # a reason we do not know: `Exit.reason` has its words
    UNREG = 64
    UNREG_BPF = 65
    UNREG_KERN = 66
    SYSRQ = 67
    PARENT = 68
    ERROR = 1024
    ERROR_BPF = 1025
    ERROR_STALL = 1026


# as the kernel's log has them; SysRq and the rest are also what schedulers print after `EXIT: `
REASONS = {
    "unregistered from user space": ExitKind.UNREG,
    "unregistered from BPF": ExitKind.UNREG_BPF,
    "unregistered from the main kernel": ExitKind.UNREG_KERN,
    "disabled by sysrq-S": ExitKind.SYSRQ,
    "parent exiting": ExitKind.PARENT,
    "runtime error": ExitKind.ERROR,
    "scx_bpf_error": ExitKind.ERROR_BPF,
    "runnable task stall": ExitKind.ERROR_STALL,
}


class Exit(NamedTuple):
    """The end of one attachment, from the kernel's log."""

    ops: str
    kind: ExitKind
    reason: str
    message: str  # may have several lines; empty: the kernel logged none
    seq: int  # the log record's number: grows from boot on
    time_us: int  # since boot

    @property
    def is_failure(self) -> bool:
        """Whether the kernel ejected the scheduler because it misbehaved."""
        return self.kind >= ExitKind.ERROR

    @property
    def is_wanted_by_a_human(self) -> bool:
        """Whether somebody pressed SysRq-S: it must not be undone."""
        return self.kind is ExitKind.SYSRQ


class Attachment(NamedTuple):
    """A scheduler that the kernel began to run, from its log."""

    ops: str
    seq: int
    time_us: int  # since boot


class Remark(NamedTuple):
    """Anything else that sched_ext wrote into the log, such as why it refuses to be enabled."""

    text: str
    seq: int
    time_us: int


class LogReading(NamedTuple):
    """What the kernel's log says about sched_ext, the oldest first."""

    exits: tuple[Exit, ...] = ()
    remarks: tuple[Remark, ...] = ()
    last_seq: int = -1  # of the newest record of any kind; -1: none was read
    problem: str = ""  # why there is nothing, or not all
    attachments: tuple[Attachment, ...] = ()
    # lines of before that time were lost since the last look; None: none were; 0: it is not known when
    lost_before_us: int | None = None


class Change(StrEnum):
    """What a uevent announces."""

    ATTACHED = "add"
    DETACHED = "remove"
    LOST = "lost"  # some could not be kept for us: look at the kernel


class Announcement(NamedTuple):
    """A uevent of sched_ext."""

    change: Change
    ops: str | None  # None: 6.x kernels do not know it any more when a scheduler goes


def last_words(log: LogReading, ops: str | None = None) -> str:
    """How the last scheduler, or the last of that name, ended; empty: the log does not say."""
    exits = [each for each in log.exits if ops is None or each.ops == ops]
    if not exits:
        return ""
    last = exits[-1]
    return f"{last.ops}: {last.reason}" + (f" ({last.message})" if last.message else "")


def unwanted_exits(log: LogReading) -> LogReading:
    """The log without the ends that schedulers' own processes asked for."""
    return log._replace(exits=tuple(each for each in log.exits if each.kind is not ExitKind.UNREG))


def exits_since(log: LogReading, time_us: int) -> LogReading:
    """The log without the ends of schedulers before that time."""
    return log._replace(exits=tuple(each for each in log.exits if each.time_us >= time_us))


def gap_us(log: LogReading, ops: str) -> int | None:
    """From the first end of a scheduler to the last beginning of the one of that name; None: not logged."""
    began = [each for each in log.attachments if each.ops == ops]
    ended = [each.time_us for each in log.exits if began and each.seq < began[-1].seq]
    return began[-1].time_us - ended[0] if ended else None
