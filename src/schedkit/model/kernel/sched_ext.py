"""What a kernel says about sched_ext now, as a value.

This, and what `model.host` has, are named tuples: `schedctl status` is to start quickly, and
importing msgspec, or making as many dataclasses, takes longer than the interpreter itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


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


class KernelState(NamedTuple):
    """One look at `/sys/kernel/sched_ext`. None: this kernel does not say, or not now."""

    state: State
    ops: str | None = None  # the attached scheduler's own name for itself
    enable_seq: int | None = None  # attachments since boot: a change proves a replacement
    switch_all: bool | None = None  # False: only tasks that ask for SCHED_EXT
    nr_rejected: int | None = None
    hotplug_seq: int | None = None
    events: Mapping[str, int] = MappingProxyType(
        {}
    )  # by the kernel's names, which differ from one to the next
    sub_schedulers: tuple[str, ...] = ()  # their ops names
    problem: str = ""  # why the state is unknown
    is_readable: bool = True  # False: the kernel said nothing, not even a word that we do not know

    @property
    def is_moving(self) -> bool:
        """Whether it is, or may be, on its way from one state to another; a file without an answer is not."""
        return self.is_readable and not self.state.is_settled


def parse_version(release: str) -> tuple[int, int, int] | None:
    """Major, minor and patch level of a release such as `6.18.15+deb13-cloud-amd64`; None if it has none."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
