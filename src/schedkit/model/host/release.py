"""Whether the kernel has released a scheduler, and what is left of one."""

from __future__ import annotations

from collections.abc import Collection

from schedkit.model.host.actions import Eject, Refused
from schedkit.model.host.containers import Container
from schedkit.model.host.holders import Leftovers, leftovers
from schedkit.model.host.owners import EJECT, OwnerKind, attribute
from schedkit.model.host.processes import Hold, is_in_container
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State


def is_released(snapshot: Snapshot, container: Container) -> bool:
    """Whether the kernel has let go of a container that was stopped, and no process of it holds a link.

    A link that is closed late takes the next scheduler along on some kernels: its holder must be gone.
    """
    owner = attribute(snapshot.proof, [container])
    if not snapshot.kernel.state.is_settled or owner.kind is OwnerKind.MANAGED:
        return False
    holders = snapshot.held.processes if snapshot.held else ()
    return not any(is_in_container(each, container.id, container.pid) for each in holders)


def has_stayed(snapshot: Snapshot, container: Container) -> bool:
    """Whether a container that was told to stop is attached all the same."""
    return attribute(snapshot.proof, [container]).kind is OwnerKind.MANAGED


def left_behind(snapshot: Snapshot) -> Leftovers:
    """What is left of schedulers that the kernel has ejected, by a look into all processes."""
    if snapshot.held is None:
        raise TypeError("processes were not inspected: what is left of ejected schedulers is not known")
    return leftovers(snapshot.kernel, snapshot.held)


def is_free(kernel: KernelState, left: Leftovers, ignored: Collection[int] = ()) -> bool:
    """Whether another scheduler may start: the kernel runs its own, and no process holds an old one."""
    holders = {process.pid for process in left.processes}.difference(ignored)
    return kernel.state is State.DISABLED and not holders


def left_in_kernel(snapshot: Snapshot) -> Refused | None:
    """What to say after a stop when the kernel still runs a scheduler that no process holds."""
    if snapshot.proof.hold is not Hold.NOBODY:
        return None
    what = f"the container is gone, but the kernel still runs {snapshot.kernel.ops}"
    why = f"it belongs to no process: {snapshot.proof.reason}"
    return Refused(what, why, EJECT)


def outlives(snapshot: Snapshot, earlier: Snapshot) -> bool:
    """Whether no process holds any more what an earlier look proved the owner of."""
    if snapshot.proof.hold is not Hold.NOBODY:
        return False
    one, other = snapshot.kernel.enable_seq, earlier.kernel.enable_seq
    if one is not None and other is not None:
        return one == other
    return snapshot.proof.map_id is not None and snapshot.proof.map_id == earlier.proof.map_id


def is_kept(snapshot: Snapshot, container: Container) -> bool:
    """Whether the kernel runs the container's scheduler, and would do so without its program."""
    owner = attribute(snapshot.proof, [container])
    return snapshot.proof.hold is Hold.MAP and owner.kind is OwnerKind.MANAGED


def plan_ejection(snapshot: Snapshot, kept: Snapshot | None) -> Eject | Refused | None:
    """What to do about a scheduler that no process holds, after a container was removed; None: nothing.

    `kept` is an earlier look that proved it to be the container's; what else nobody holds is only named.
    """
    left = left_in_kernel(snapshot)
    if left is None:
        return None
    return Eject() if kept is not None and outlives(snapshot, kept) else left
