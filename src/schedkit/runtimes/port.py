"""The port to a container runtime.

Both runtimes keep the same promises; tests/contract/test_runtime_port.py holds them to it. Calls are
synchronous. Everything they raise themselves is a `ContainerRuntimeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from schedkit.model.host.containers import Container, Exit
from schedkit.runtimes.containers import Output
from schedkit.runtimes.image_content import ImageContent, Progress
from schedkit.runtimes.specs import Spec


class Images(Protocol):
    """The part of a runtime that keeps images."""

    def has_image(self, reference: str) -> bool:
        """Whether the image can be run without loading it."""

    def load(self, image: ImageContent, progress: Callable[[Progress], None] | None = None) -> None:
        """Keep exactly these bytes under the image's reference.

        Layers are streamed. What their source raises passes through; then, as after any failure, the
        runtime does not have the image. Loading what is there already does no harm.
        """


class Runtime(Images, Protocol):
    """A container runtime. A container is named by its id or its name, and those of others are not there."""

    @property
    def name(self) -> str:
        """As people write it: Podman, containerd."""

    def version(self) -> str:
        """Its version, from the runtime itself: it answers, and is new enough."""

    def create(self, spec: Spec) -> Container:
        """Prepare everything up to the start of the program; after a failure nothing is left."""

    def start(self, container: str) -> None:
        """Begin the program, also again after its end; raise `StartError` when it cannot be executed."""

    def containers(self) -> tuple[Container, ...]:
        """All of schedkit's, the oldest first, also those of the Go schedctl and those that have ended."""

    def inspect(self, container: str) -> Container:
        """What is known about one."""

    def logs(self, container: str, *, tail: int | None = None, follow: bool = False) -> Iterator[Output]:
        """The last `tail` lines of its output, or all that was kept; `follow` goes on until its end."""

    def attach(self, container: str, *, stdin: int | None = None) -> Iterator[Output]:
        """What its program writes, as it comes and until its end; asked before its start, none is missed.

        What can be read from the descriptor `stdin` is its input; the container must be one that has any.
        """

    def wait(self, container: str, *, timeout_s: float | None = None) -> Exit | None:
        """How it ended, once it has; None if it still runs after that time."""

    def stop(self, container: str, *, grace_s: float) -> Exit | None:
        """SIGTERM, and SIGKILL for what still runs after that time; returns its end when all of it is gone.

        None: it had never been started. What not even SIGKILL ends within a minute is a `StillThereError`.
        """

    def remove(self, container: str) -> None:
        """Delete it with its output, and kill it before if it still runs; it may be gone already."""
