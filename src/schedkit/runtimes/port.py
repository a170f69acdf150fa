"""The port to a container runtime, and the values that pass through it.

Both runtimes keep the same promises; tests/contract/test_runtime_port.py holds them to it. Calls are
synchronous. Everything they raise themselves is a `ContainerRuntimeError`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol

from schedkit.runtimes.contents import ImageContent, Progress

# what the Go schedctl marks its Podman containers with; its containerd ones live in the namespace
PROVIDER_LABEL = ("provider", "schedkit")
NAMESPACE = "schedkit"
# kept of one container's output; older output is dropped
LOG_LIMIT_BYTES = 4 << 20
_SIGNAL_BASE = 128


class State(Enum):
    """What a container is doing."""

    CREATED = "created"  # prepared: its program has not begun
    RUNNING = "running"  # its program may hold the kernel's scheduler, also while paused or ending
    EXITED = "exited"
    UNKNOWN = "unknown"  # the runtime itself does not know


class Network(Enum):
    """What of the network a container sees."""

    NONE = "none"
    HOST = "host"


class Stream(Enum):
    """Where a program wrote something."""

    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True)
class Privileged:
    """Everything the runtime can grant."""


@dataclass(frozen=True, slots=True)
class LeastPrivilege:
    """These capabilities and no others, on a root filesystem that cannot be written."""

    capabilities: tuple[str, ...] = ("CAP_BPF", "CAP_PERFMON")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine that the container sees; it must exist."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A container to create. It sees the host's processes, may write to its own /run, and has no input."""

    name: str
    image: str  # by digest, as it was loaded
    args: tuple[str, ...] = ()  # empty: the image's own
    env: Mapping[str, str] = field(default_factory=dict)  # beside the image's own
    labels: Mapping[str, str] = field(default_factory=dict)
    privileges: Privileged | LeastPrivilege = Privileged()
    mounts: tuple[Mount, ...] = ()
    network: Network = Network.NONE
    memory_limit_bytes: int | None = None  # None: only the machine's own limit


@dataclass(frozen=True, slots=True)
class Exit:
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
            return "killed by the kernel, out of memory"
        if self.signal is not None:
            return f"killed by {signal.Signals(self.signal).name}"
        return f"exit code {self.code}"


_SIGNALS = frozenset(number.value for number in signal.Signals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
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


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end of a container that was asked to stop."""

    exit: Exit | None  # None: it had never been started
    forced: bool  # it did not end by itself within the time given


@dataclass(frozen=True, slots=True)
class Output:
    """Some bytes that a program wrote, in the order in which it wrote them."""

    stream: Stream
    data: bytes


class Images(Protocol):
    """The part of a runtime that keeps images."""

    def has_image(self, reference: str) -> bool:
        """Whether the image can be run without loading it."""

    def load(self, image: ImageContent, progress: Callable[[Progress], None] = ...) -> None:
        """Keep exactly these bytes under the image's reference.

        Layers are streamed. What their source raises passes through; then, as after any failure, the
        runtime does not have the image. Loading what is there already does no harm.
        """


class Runtime(Images, Protocol):
    """A container runtime. A container is named by its id or its name."""

    @property
    def name(self) -> str:
        """As people write it: Podman, containerd."""

    def version(self) -> str:
        """Its version, from the runtime itself: it answers, and is new enough."""

    def create(self, spec: Spec) -> Container:
        """Prepare everything up to the start of the program; after a failure nothing is left."""

    def start(self, container: str) -> None:
        """Begin the program; raise `StartError` when it cannot be executed."""

    def containers(self) -> tuple[Container, ...]:
        """All of schedkit's, the oldest first, also those of the Go schedctl and those that have ended."""

    def inspect(self, container: str) -> Container:
        """What is known about one."""

    def logs(self, container: str, *, tail: int | None = None, follow: bool = False) -> Iterator[Output]:
        """The last `tail` lines of its output, or all that was kept; `follow` goes on until its end."""

    def attach(self, container: str) -> Iterator[Output]:
        """What its program writes, as it comes and until its end; asked before its start, none is missed."""

    def wait(self, container: str, *, timeout_s: float | None = None) -> Exit | None:
        """How it ended, once it has; None if it still runs after that time."""

    def stop(self, container: str, *, grace_s: float = 10) -> Stopped:
        """SIGTERM, and SIGKILL for what still runs after that time; returns when it is gone."""

    def remove(self, container: str) -> None:
        """Delete it with its output, and kill it before if it still runs; it may be gone already."""
