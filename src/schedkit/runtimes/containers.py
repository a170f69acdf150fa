"""Containers as values: what a runtime knows about them, and what they wrote.

Every call of schedctl that asks for a status imports this: it holds what those need, as named tuples, which
are made five times as fast as dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import NamedTuple

# what the Go schedctl marks its Podman containers with; its containerd ones live in the namespace
PROVIDER_LABEL = ("provider", "schedkit")
NAMESPACE = "schedkit"
# what only the adapters themselves need: which call created a container, and when its program began
CREATION_LABEL = "org.schedkit.creation"
STARTED_AT_LABEL = "org.schedkit.started-at"
KILL_TIMEOUT_S = 60.0  # for what was killed to be gone; only a process that hangs in the kernel takes longer
_SIGNAL_BASE = 128


def shown(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels without those that are of use to the adapters alone."""
    hidden = {CREATION_LABEL, STARTED_AT_LABEL}
    return {name: value for name, value in labels.items() if name not in hidden}


class State(Enum):
    """What a container is doing."""

    CREATED = "created"  # prepared: its program has not begun
    RUNNING = "running"  # its program may hold the kernel's scheduler, also while paused or ending
    EXITED = "exited"
    UNKNOWN = "unknown"  # the runtime itself does not know


class Stream(Enum):
    """Where a program wrote something."""

    STDOUT = 1
    STDERR = 2


class Exit(NamedTuple):
    """How a container's program ended."""

    code: int
    at: datetime | None = None  # None: the runtime did not say
    out_of_memory: bool = False

    @property
    def signal(self) -> int | None:
        """The signal that ended it; None if it ended by itself."""
        from signal import valid_signals  # noqa: PLC0415 - its enumerations are slow to make

        number = self.code - _SIGNAL_BASE
        return number if number in valid_signals() else None

    def __str__(self) -> str:
        from signal import Signals  # noqa: PLC0415 - as above

        if self.out_of_memory:
            return "killed by the kernel, out of memory"
        if self.signal is not None:
            return f"killed by {Signals(self.signal).name}"
        return f"exit code {self.code}"


class Container(NamedTuple):
    """What a runtime knows about a container, ours or one of the Go schedctl."""

    id: str
    name: str
    image: str  # as it was named when the container was created
    image_id: str | None  # the runtime's own name for the image; None: it is gone
    labels: Mapping[str, str]
    state: State
    created_at: datetime | None
    started_at: datetime | None = None  # None: it was not, or nobody knows
    pid: int | None = None  # None: it does not run
    exit: Exit | None = None  # None: it has not ended, or the machine restarted since


class Stopped(NamedTuple):
    """The end of a container that was asked to stop."""

    exit: Exit | None  # None: it had never been started
    forced: bool  # it did not end by itself within the time given


class Output(NamedTuple):
    """Some bytes that a program wrote, in the order in which it wrote them."""

    stream: Stream
    data: bytes
