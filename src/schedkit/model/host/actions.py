"""What can be done to a machine, as values; what is known about it before; and a refusal to do anything.

Nothing here acts, or decides: `run_stop` and `switch_reset` make plans of these, `schedctl` performs them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from schedkit.model.host.owners import OurContainer, Owner, OwnerKind, attribute
from schedkit.model.host.ownership import Leftovers, SchedulerMap
from schedkit.model.host.processes import Process
from schedkit.model.host.status import HostObservation


class Known(NamedTuple):
    """A container of ours, or of the Go schedctl, that a runtime has."""

    driver: str
    id: str
    name: str
    is_running: bool
    pid: int = 0  # of its first process; 0: it does not run
    digest: str = ""  # what was asked for when it was made; empty: another program made it
    options: str = ""  # likewise

    def __str__(self) -> str:
        return f"container {self.name or self.id[:12]}"

    @property
    def ours(self) -> OurContainer:
        """The same for proofs of ownership."""
        return OurContainer(self.id, self.name, self.pid)


class Host(NamedTuple):
    """The machine at one moment."""

    observation: HostObservation
    containers: tuple[Known, ...] | None  # None: no runtime answered
    lingering: Leftovers = Leftovers()  # of schedulers that the kernel has ejected
    silent: tuple[str, ...] = ()  # drivers of runtimes that did not answer

    @property
    def running(self) -> tuple[Known, ...]:
        """Those that may hold the kernel's scheduler."""
        return tuple(each for each in self.containers or () if each.is_running)

    @property
    def removable(self) -> tuple[Known, ...]:
        """Those that have ended, and are not needed to prove whose the attached scheduler is."""
        owner = self.owner
        if owner.kind is OwnerKind.UNKNOWN:
            return ()
        ended = (each for each in self.containers or () if not each.is_running)
        return tuple(each for each in ended if each.id != owner.container_id)

    @property
    def kept(self) -> tuple[Known, ...]:
        """All others: a change may end them, and removes them last."""
        return tuple(each for each in self.containers or () if each not in self.removable)

    @property
    def ops(self) -> str:
        """What the kernel runs, by its own name if it is known."""
        return self.observation.kernel.ops or "a scheduler"

    @property
    def owner(self) -> Owner:
        """Whose the attached scheduler is."""
        # also what is left of one that ended: its other processes may hold the scheduler
        ours = None if self.containers is None else [each.ours for each in self.containers]
        return attribute(self.observation.proof, ours, silent=self.silent)

    @property
    def stray(self) -> Process | None:
        """The process of a container of ours that has ended, if the attached scheduler is its."""
        owner = self.owner
        is_stopped_with = owner.container_id in {each.id for each in self.running}
        is_stray = owner.kind is OwnerKind.MANAGED and not is_stopped_with
        return self.observation.proof.process if is_stray else None


class Refused(NamedTuple):
    """Why nothing is done, and what to do instead."""

    what: str
    why: str
    remedy: str


class Discard(NamedTuple):
    """Delete a container."""

    container: Known


class Create(NamedTuple):
    """Prepare the container that was asked for."""


class Listen(NamedTuple):
    """Be there for all that its program will write."""


class Start(NamedTuple):
    """Begin its program."""


class AwaitAttachment(NamedTuple):
    """Look until the kernel runs its scheduler, or it is clear that it will not."""


class Stop(NamedTuple):
    """End a container's program."""

    container: Known
    is_awaited: bool = True  # False: go on while its runtime waits for the end, and tidies up


class AwaitRelease(NamedTuple):
    """Look until nothing of the container is left in the kernel."""

    container: Known


class EndProcess(NamedTuple):
    """End a process that no runtime would end for us, and that holds a scheduler, attached or ejected."""

    process: Process


class Eject(NamedTuple):
    """Take out of the kernel what no process would take along."""

    is_blind: bool = False  # also what some process holds


class Unregister(NamedTuple):
    """Remove the registration that an ejected scheduler without a link has left, while none is attached."""

    scheduler: SchedulerMap


class AwaitFree(NamedTuple):
    """Look until the kernel runs its own scheduler, and no process holds an ejected one."""

    ignored: tuple[int, ...] = ()  # processes that may
    unless: Known | None = None  # nothing to wait for, if this one could not be stopped and is attached still


class Restart(NamedTuple):
    """Begin the program of a container again that was stopped; nothing, if it runs."""

    container: Known


class AwaitReturn(NamedTuple):
    """Look until the kernel runs the scheduler of a container that was started again."""

    container: Known


Action: TypeAlias = (
    Discard
    | Create
    | Listen
    | Start
    | AwaitAttachment
    | Stop
    | AwaitRelease
    | EndProcess
    | Eject
    | Unregister
    | AwaitFree
    | Restart
    | AwaitReturn
)
