"""One look at this machine: what its kernel runs, and the evidence of who holds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from schedkit.kernel import ownership, sysfs
from schedkit.model.host import HostObservation
from schedkit.model.kernel import SchedExt, State
from schedkit.model.owners import Evidence, Hold

_LOOKS = 3


def observe(root: Path, *, gather: Callable[[Path], Evidence] = ownership.gather) -> HostObservation:
    """What the kernel runs and who holds it, both of the same moment.

    Processes are looked at only while a scheduler is attached. An answer that names no holder is looked for
    twice: a process that starts or ends while we look would seem to be none.
    """
    observation = _look(root, gather)
    for _ in range(_LOOKS - 1):
        if observation.proof.hold not in {Hold.NOBODY, Hold.UNKNOWN}:
            break
        previous, observation = observation, _look(root, gather)
        if previous.proof == observation.proof:
            break
    return observation


def _look(root: Path, gather: Callable[[Path], Evidence]) -> HostObservation:
    kernel = sysfs.read(root)
    evidence = Evidence()
    for _ in range(_LOOKS):
        if kernel.state is not State.ENABLED:
            return HostObservation(kernel)
        evidence, before = gather(root), kernel
        kernel = sysfs.read(root)
        if _is_same_attachment(before, kernel):
            return HostObservation(kernel, evidence)
    return HostObservation(kernel, Evidence(gaps=("schedulers come and go faster than we can look",)))


def _is_same_attachment(one: SchedExt, other: SchedExt) -> bool:
    return (one.state, one.ops, one.enable_seq) == (other.state, other.ops, other.enable_seq)
