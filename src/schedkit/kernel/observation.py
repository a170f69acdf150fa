"""One look at this machine: what its kernel runs, and who holds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.kernel import sysfs
from schedkit.model.host.processes import Hold, Proof
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State

if TYPE_CHECKING:  # all that proving needs is imported only while a scheduler is attached
    from schedkit.model.host.holders import HeldObjects

_LOOKS = 3


def _gather(root: Path) -> HeldObjects:
    from schedkit.kernel import held_objects  # noqa: PLC0415 - as above

    return held_objects.gather(root)


def observe(
    root: Path, *, is_thorough: bool = False, gather: Callable[[Path], HeldObjects] = _gather
) -> Snapshot:
    """What the kernel runs, who holds it and what else is held, all of the same moment.

    Processes are looked at only while a scheduler is attached, or if `is_thorough`: what is left of ejected
    ones shows then as well. An answer that names no holder is looked for twice: a process that starts or
    ends while we look would seem to be none.
    """
    observation = _look(root, gather, is_thorough=is_thorough)
    for _ in range(_LOOKS - 1):
        if observation.proof.hold not in {Hold.NOBODY, Hold.UNKNOWN}:
            break
        previous, observation = observation, _look(root, gather, is_thorough=is_thorough)
        if previous.proof == observation.proof:
            break
    return observation


def _look(root: Path, gather: Callable[[Path], HeldObjects], *, is_thorough: bool) -> Snapshot:
    kernel, held = sysfs.read(root), None
    for _ in range(_LOOKS):
        if kernel.state is not State.ENABLED and not is_thorough:
            return Snapshot(kernel)
        held, before = gather(root), kernel
        kernel = sysfs.read(root)
        if _is_same_attachment(before, kernel):
            return Snapshot(kernel, _prove(kernel, held), held)
    unknown = Proof(Hold.UNKNOWN, reason="schedulers change faster than they can be observed: try again")
    return Snapshot(kernel, unknown, held)


def _prove(kernel: KernelState, held: HeldObjects) -> Proof:
    from schedkit.model.host.holders import prove  # noqa: PLC0415 - as above

    return prove(kernel, held)


def _is_same_attachment(one: KernelState, other: KernelState) -> bool:
    return (one.state, one.ops, one.enable_seq) == (other.state, other.ops, other.enable_seq)
