"""One look at a machine: all that is decided about it is decided from this.

`schedctl status` imports this: what only changes ask for is a function of the module that decides them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from schedkit.model.host.containers import Container
from schedkit.model.host.owners import Owner, OwnerKind, attribute
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.kernel.sched_ext import KernelState

if TYPE_CHECKING:  # `status` needs it only while a scheduler is attached
    from schedkit.model.host.holders import HeldObjects


class Snapshot(NamedTuple):
    """What the kernel ran at one moment, who held that, and which of our containers there were."""

    kernel: KernelState
    proof: Proof = Proof(Hold.NOTHING)
    held: HeldObjects | None = None  # what the proof follows from; None: processes were not looked at
    containers: tuple[Container, ...] | None = None  # None: no runtime answered, or none was asked
    silent: tuple[str, ...] = ()  # drivers of runtimes that did not answer, there or not
    problems: tuple[str, ...] = ()  # of runtimes that are there, and did not answer

    @property
    def running(self) -> tuple[Container, ...]:
        """The containers that may hold the kernel's scheduler."""
        return tuple(each for each in self.containers or () if each.is_running)

    @property
    def ended(self) -> tuple[Container, ...]:
        """The containers that do not run: what is left of them may hold the kernel's scheduler."""
        return tuple(each for each in self.containers or () if not each.is_running)

    @property
    def removable(self) -> tuple[Container, ...]:
        """The containers that have ended, and are not needed to prove whose the attached scheduler is."""
        owner = self.owner
        if owner.kind is OwnerKind.UNKNOWN:
            return ()
        return tuple(each for each in self.ended if each.id != owner.container_id)

    @property
    def kept(self) -> tuple[Container, ...]:
        """All other containers: a change may end them, and removes them last."""
        removable = self.removable
        return tuple(each for each in self.containers or () if each not in removable)

    @property
    def ops(self) -> str:
        """What the kernel runs, by its own name if it is known."""
        return self.kernel.ops or "a scheduler"

    @property
    def owner(self) -> Owner:
        """Whose the attached scheduler is."""
        # also what is left of a container that ended: its other processes may hold the scheduler
        return attribute(self.proof, self.containers, silent=self.silent)

    @property
    def stray(self) -> Process | None:
        """The process of a container of ours that has ended, if it holds the attached scheduler."""
        owner = self.owner
        is_stopped_with = owner.container_id in {each.id for each in self.running}
        is_stray = owner.kind is OwnerKind.MANAGED and not is_stopped_with
        return self.proof.process if is_stray else None
