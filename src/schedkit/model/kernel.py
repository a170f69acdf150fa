"""What a kernel says about sched_ext, as values: its state, how schedulers ended, what it announces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum, StrEnum

import msgspec

_VERSION = re.compile(r"(\d+)\.(\d+)")


class State(StrEnum):
    """The answer of `/sys/kernel/sched_ext/state`, or why there is none of the four."""

    DISABLED = "disabled"
    ENABLING = "enabling"
    ENABLED = "enabled"
    DISABLING = "disabling"
    ABSENT = "absent"  # the kernel was built without sched_ext
    UNKNOWN = "unknown"  # a word we do not know, or a file that cannot be read

    @property
    def is_settled(self) -> bool:
        """Whether waiting alone changes nothing."""
        return self in {State.DISABLED, State.ENABLED, State.ABSENT}


class SchedExt(msgspec.Struct, frozen=True):
    """One look at `/sys/kernel/sched_ext`. None: this kernel does not say, or not now."""

    state: State
    ops: str | None = None  # the attached scheduler's own name for itself
    enable_seq: int | None = None  # attachments since boot: a change proves a replacement
    switch_all: bool | None = None  # False: only tasks that ask for SCHED_EXT
    nr_rejected: int | None = None
    hotplug_seq: int | None = None
    events: Mapping[str, int] = {}  # by the kernel's names, which differ from one to the next
    sub_schedulers: tuple[str, ...] = ()  # their ops names
    problem: str = ""  # why the state is unknown


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


class Exit(msgspec.Struct, frozen=True):
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


class Remark(msgspec.Struct, frozen=True):
    """Anything else that sched_ext wrote into the log, such as why it refuses to be enabled."""

    text: str
    seq: int
    time_us: int


class LogReading(msgspec.Struct, frozen=True):
    """What the kernel's log says about sched_ext, the oldest first."""

    exits: tuple[Exit, ...] = ()
    remarks: tuple[Remark, ...] = ()
    last_seq: int = -1  # of the newest record of any kind; -1: none was read
    problem: str = ""  # why there is nothing, or not all


class Change(StrEnum):
    """What a uevent announces."""

    ATTACHED = "add"
    DETACHED = "remove"


class Announcement(msgspec.Struct, frozen=True):
    """A uevent of sched_ext."""

    change: Change
    ops: str | None  # None: 6.x kernels do not know it any more when a scheduler goes


def parse_version(release: str) -> tuple[int, int] | None:
    """Major and minor of a release such as `6.18.15+deb13-cloud-amd64`; None if it has none."""
    found = _VERSION.match(release)
    return (int(found[1]), int(found[2])) if found else None
