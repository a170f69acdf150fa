"""What a change is made to: a kernel, container runtimes, and the new container that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from schedkit.model.host.containers import Container
from schedkit.model.host.time_limits import GRACE_S, TIMEOUT_S
from schedkit.runtimes.errors import NoSuchContainerError
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.change.kernel_port import Kernel


class NewContainer(NamedTuple):
    """The container that is asked for."""

    driver: str
    spec: Spec
    timeout_s: float = TIMEOUT_S  # for the kernel to run its scheduler
    stdin: int | None = None  # the descriptor of what its program reads; None: it has no input
    folders: tuple[Path, ...] = ()  # of this machine, that it is to find: they are made before it is


class Stops:
    """Containers that are being stopped while a change goes on."""

    def __init__(self, submit: Callable[[Callable[[], None]], Future[None]] | None = None) -> None:
        self._submit = submit or ThreadPoolExecutor().submit
        self._stops: list[Future[None]] = []

    @property
    def are_over(self) -> bool:
        """Whether every stop has ended, and what hindered one was heard."""
        return not self._stops

    def begin(self, stop: Callable[[], None]) -> None:
        """Do it beside everything else."""
        self._stops.append(self._submit(stop))

    def hear(self) -> None:
        """Once all have ended, raise what hindered one."""
        if all(each.done() for each in self._stops):
            self.join()

    def join(self) -> None:
        """Wait until all have ended; raises what hindered one."""
        wait(self._stops)  # interrupted here, all of them stay known: they go on
        while self._stops:
            self._stops.pop().result()


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine, for the time of one change."""

    kernel: Kernel
    runtimes: Mapping[str, Runtime]  # by driver
    tell: Callable[[str], None]  # whoever waits for the change
    grace_s: float = GRACE_S  # for what is stopped
    new: NewContainer | None = None  # None: the change creates none
    stops: Stops = field(default_factory=Stops)

    @property
    def wanted(self) -> NewContainer:
        """The new container; only plans that create one ask for it."""
        if self.new is None:
            raise TypeError("the plan creates a container, but no container was requested")
        return self.new

    @property
    def runtime(self) -> Runtime:
        """The runtime of the new container."""
        return self.runtimes[self.wanted.driver]

    def of(self, container: Container) -> Runtime:
        """The runtime of a container."""
        return self.runtimes[container.driver]

    def find(self, made: Container) -> Container | None:
        """A container as it is now; None if it is gone, whatever has its name since."""
        try:
            found = self.of(made).inspect(made.id)
        except NoSuchContainerError:
            return None
        # containerd's ids are names
        return found if found.created_at == made.created_at else None

    def stop(self, container: Container) -> None:
        """End a container's program beside everything else."""
        self.stops.begin(lambda: self._stop(container))

    def _stop(self, container: Container) -> None:
        with suppress(NoSuchContainerError):  # somebody was faster, and it has ended all the same
            self.of(container).stop(container.id, grace_s=self.grace_s)
