"""The kernel's log: how schedulers ended, in the kernel's own words. No file of sysfs keeps them.

And its announcements when they come and go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum
from itertools import islice
from typing import NamedTuple

PREFIX = "sched_ext: "
_ENABLED = re.compile(r'sched_ext: BPF \S*scheduler "(?P<ops>.*)" enabled', re.DOTALL)
_DISABLED = re.compile(r'sched_ext: BPF \S*scheduler "(?P<ops>.*)" disabled \((?P<reason>.*)\)\s*', re.DOTALL)
_MESSAGE_WITHIN = 32  # records: others may write into the log in between
_FACILITY_SHIFT = 3
_KERNEL = 0  # who writes into /dev/kmsg cannot pass for the kernel


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


class Record(NamedTuple):
    """One message of the log."""

    seq: int
    time_us: int
    text: str


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


def is_the_kernels_own(priority: int) -> bool:
    """Whether the kernel itself wrote a line of that number; a program of the machine has a higher one."""
    return priority >> _FACILITY_SHIFT == _KERNEL


def interpret(records: Sequence[Record], *, after_seq: int = -1) -> LogReading:
    """What the records with later numbers say about sched_ext."""
    own = [record for record in records if record.seq > after_seq and record.text.startswith(PREFIX)]
    exits: list[Exit] = []
    told: set[int] = set()  # records that are a part of an exit
    for place, record in enumerate(own):
        if found := _DISABLED.fullmatch(record.text):
            message = _message(found["ops"], islice(own, place + 1, place + 1 + _MESSAGE_WITHIN))
            told |= {record.seq} | ({message.seq} if message else set())
            exits.append(_exit(found, record, message))
    news = [(each, _ENABLED.match(each.text)) for each in own if each.seq not in told]
    remarks = tuple(
        Remark(each.text.removeprefix(PREFIX).strip(), each.seq, each.time_us)
        for each, enabled in news
        if not enabled
    )
    attachments = tuple(Attachment(found["ops"], each.seq, each.time_us) for each, found in news if found)
    last_seq = max((record.seq for record in records), default=-1)
    return LogReading(tuple(exits), remarks, last_seq, attachments=attachments)


def is_about_a_change(text: str) -> bool:
    """Whether a message is the kernel's about an attachment or an end: such a message has one line."""
    return bool(_DISABLED.fullmatch(text) or _ENABLED.match(text))


def _message(ops: str, following: Iterable[Record]) -> Record | None:
    """The kernel's words about a failure; it has none about an ordinary end."""
    for record in following:
        if is_about_a_change(record.text):
            return None
        if record.text.startswith(f"{PREFIX}{ops}: "):
            return record
    return None


def _exit(found: re.Match[str], record: Record, message: Record | None) -> Exit:
    words = message.text.removeprefix(f"{PREFIX}{found['ops']}: ").strip() if message else ""
    kind = REASONS.get(found["reason"], ExitKind.UNKNOWN)
    return Exit(found["ops"], kind, found["reason"], words, record.seq, record.time_us)


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
