"""A container of schedkit's: what its runtime says about it, and the labels that it carries.

Every `schedctl status` imports this: named tuples are made five times as fast as dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

# the labels that a container of ours carries, so that whoever finds it later knows what it is
CATALOG_NAME_LABEL: Final = "org.schedkit.catalog-name"
IMAGE_LABEL: Final = "org.schedkit.image"  # as it was asked for
DIGEST_LABEL: Final = "org.schedkit.digest"  # what was resolved, and what signatures are about
SIGNER_LABEL: Final = "org.schedkit.signer"  # absent: it was not verified
POLICY_LABEL: Final = "org.schedkit.policy"
OPTIONS_LABEL: Final = "org.schedkit.options"  # of `schedctl run`, and what they meant then, as JSON

_SHORT_ID = 12  # characters
_SIGNAL_BASE = 128  # a program that was killed ends with this and the signal's number
_FROM_1_ON = (
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN "
    "TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
)
# the same on every machine that sched_ext runs on
_SIGNALS = {**dict(enumerate(_FROM_1_ON.split(), start=1)), 34: "RTMIN", 64: "RTMAX"}


class ContainerState(Enum):
    """What a container is doing."""

    CREATED = "created"  # prepared: its program has not begun
    RUNNING = "running"  # its program may hold the kernel's scheduler, also while paused or ending
    EXITED = "exited"
    UNKNOWN = "unknown"  # the runtime itself does not know


class Exit(NamedTuple):
    """How a container's program ended."""

    code: int
    at: datetime | None = None  # None: the runtime did not say
    out_of_memory: bool = False

    @property
    def signal(self) -> int | None:
        """The signal that ended it; None if it ended by itself."""
        number = self.code - _SIGNAL_BASE
        return number if number in _SIGNALS else None

    def __str__(self) -> str:
        if self.out_of_memory:
            return "killed by the kernel because memory ran out"
        if self.signal is not None:
            return f"killed by SIG{_SIGNALS[self.signal]}"
        return f"exit code {self.code}"


class Container(NamedTuple):
    """A container that schedctl, this one or the Go one, has made, as its runtime knows it."""

    id: str
    name: str
    driver: str  # of the runtime that has it
    state: ContainerState
    pid: int | None = None  # of its first process; None: it does not run
    image: str = ""  # as it was named when the container was created
    image_id: str | None = None  # the runtime's own name for the image; None: it is gone
    labels: Mapping[str, str] = MappingProxyType({})
    created_at: datetime | None = None
    started_at: datetime | None = None  # None: it was not, or nobody knows
    exit: Exit | None = None  # None: it has not ended, or the machine restarted since

    def __str__(self) -> str:
        return f"container {self.name or self.id[:_SHORT_ID]}"

    @property
    def is_running(self) -> bool:
        """Whether it may hold the kernel's scheduler."""
        return self.state is ContainerState.RUNNING

    @property
    def digest(self) -> str:
        """The image that was asked for when it was made; empty: another program made it."""
        return self.labels.get(DIGEST_LABEL, "")

    @property
    def options(self) -> str:
        """The options that were asked for when it was made; empty: another program made it."""
        return self.labels.get(OPTIONS_LABEL, "")
