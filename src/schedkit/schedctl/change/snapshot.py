"""One look at this machine: its kernel, and our containers in every runtime that answers.

`status` imports this: nothing here may import msgspec, a network or cryptography.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schedkit.kernel import observation
from schedkit.model.host.owners import OurContainer
from schedkit.model.host.status import HostObservation, should_wait
from schedkit.runtimes.containers import Container, State
from schedkit.runtimes.errors import ContainerRuntimeError, NoSocketError
from schedkit.schedctl.change.labels import DIGEST, OPTIONS
from schedkit.schedctl.settings.table import DRIVERS

if TYPE_CHECKING:
    from schedkit.model.host.actions import Host, Known
    from schedkit.runtimes.port import Runtime

_POLL_S = 0.05


class Found(NamedTuple):
    """A container, and the driver of the runtime that has it."""

    driver: str
    container: Container

    @property
    def is_running(self) -> bool:
        """Whether it may hold the kernel's scheduler."""
        return self.container.state is State.RUNNING

    @property
    def ours(self) -> OurContainer:
        """The same for proofs of ownership."""
        return OurContainer(self.container.id, self.container.name, self.container.pid or 0)

    @property
    def known(self) -> Known:
        """The same for decisions about changes."""
        from schedkit.model.host.actions import Known  # noqa: PLC0415 - `status` changes nothing

        one = self.container
        digest, options = (one.labels.get(label, "") for label in (DIGEST, OPTIONS))
        return Known(self.driver, one.id, one.name, self.is_running, one.pid or 0, digest, options)


class Look(NamedTuple):
    """What the kernel and the runtimes said."""

    observation: HostObservation
    containers: tuple[Found, ...] | None  # None: no runtime answered
    problems: tuple[str, ...] = ()  # of runtimes that are there, and did not answer
    silent: tuple[str, ...] = ()  # the drivers of all that did not answer, there or not

    @property
    def running(self) -> tuple[Found, ...] | None:
        """Those of the containers that run; None: no runtime answered."""
        return self.containers and tuple(each for each in self.containers if each.is_running)

    @property
    def ended(self) -> tuple[Found, ...]:
        """Those that do not run: what is left of them may hold the kernel's scheduler."""
        return tuple(each for each in self.containers or () if not each.is_running)

    @property
    def host(self) -> Host:
        """The same for decisions about changes."""
        from schedkit.model.host.actions import Host  # noqa: PLC0415 - as above

        known = None if self.containers is None else tuple(each.known for each in self.containers)
        return Host(self.observation, known, silent=self.silent)


class Survey(NamedTuple):
    """A look, and what is left of schedulers that the kernel has ejected."""

    look: Look
    host: Host


def survey(root: Path, runtimes: Mapping[str, Runtime]) -> Survey:
    """All that a change is decided from."""
    from schedkit.kernel import ownership  # noqa: PLC0415 - `status` changes nothing
    from schedkit.model.host.ownership import leftovers  # noqa: PLC0415 - as above

    seen = look(root, runtimes)
    lingering = leftovers(seen.observation.kernel, ownership.gather(root))
    return Survey(seen, seen.host._replace(lingering=lingering))


def look(root: Path, runtimes: Mapping[str, Runtime]) -> Look:
    """Ask the runtimes, then the kernel once it is settled: what it runs may be in a container just seen."""
    answers = {driver: _containers(runtime) for driver, runtime in runtimes.items()}
    found = [
        Found(driver, each)
        for driver, answer in answers.items()
        if not isinstance(answer, ContainerRuntimeError)
        for each in answer
    ]
    errors = {each: answer for each, answer in answers.items() if isinstance(answer, ContainerRuntimeError)}
    problems = tuple(str(error) for error in errors.values() if not isinstance(error, NoSocketError))
    is_answered = len(errors) < len(answers)
    # one whose socket is missing may have been stopped, or listen elsewhere: its containers live on
    silent = tuple(each for each in DRIVERS if each in errors or each not in answers)
    return Look(settled(root), tuple(found) if is_answered else None, problems, silent)


def _containers(runtime: Runtime) -> tuple[Container, ...] | ContainerRuntimeError:
    try:
        return runtime.containers()
    except ContainerRuntimeError as error:
        return error


def settled(root: Path) -> HostObservation:
    """What the kernel runs and whose it is; a kernel between schedulers is given a few seconds."""
    began = time.monotonic()
    seen = observation.observe(root)
    while should_wait(seen, waited_s=time.monotonic() - began):
        time.sleep(_POLL_S)
        seen = observation.observe(root)
    return seen
