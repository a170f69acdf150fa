"""What `run` and `stop` have to do, or why they must not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from schedkit.model.host.actions import (
    CLEAR,
    Action,
    AwaitAttachment,
    AwaitRelease,
    Create,
    Discard,
    Eject,
    EndProcess,
    Listen,
    Plan,
    Refused,
    Start,
    Stop,
    Unregister,
)
from schedkit.model.host.containers import Container
from schedkit.model.host.holders import Leftovers
from schedkit.model.host.owners import EJECT, Owner, OwnerKind, way_to_end
from schedkit.model.host.processes import Process
from schedkit.model.host.release import left_behind
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import State

SHORTEST_ID = 4  # of a container, as people abbreviate it


class After(StrEnum):
    """What a run does once its program has begun."""

    WAIT = "wait"  # until the kernel confirms it
    LEAVE = "leave"
    FOLLOW = "follow"  # pass on what it writes, until its end


_STEPS: Mapping[After, tuple[Action, ...]] = {
    After.WAIT: (Create(), Start(), AwaitAttachment()),
    After.LEAVE: (Create(), Start()),
    After.FOLLOW: (Create(), Listen(), Start()),
}


def plan_run(host: Snapshot, *, after: After = After.WAIT, is_forced: bool = False) -> Plan | Refused:
    """What brings another scheduler into the kernel; what is left of earlier ones goes first."""
    if refused := _obstacle(host, is_forced=is_forced):
        return refused
    return Plan((*discard_leftovers(host), *unregister_leftovers(host), *_STEPS[after]), on_failure=CLEAR)


def unregister_leftovers(host: Snapshot) -> tuple[Action, ...]:
    """Remove what ejected schedulers have left in the kernel: beside it, no owner of their name is proved."""
    return tuple(map(Unregister, left_behind(host).registered))


def discard_leftovers(host: Snapshot) -> tuple[Action, ...]:
    """Remove what ended or interrupted changes have left behind."""
    return tuple(map(Discard, host.removable))


def _obstacle(host: Snapshot, *, is_forced: bool) -> Refused | None:
    if unable := without_sched_ext(host):
        return unable
    if host.running:
        why = "a kernel runs one scheduler at a time"
        remedy = "replace it with `schedctl switch`, or stop it first: `schedctl stop`"
        return Refused(f"{named(host.running)} runs already", why, remedy)
    if is_forced:
        return None
    if host.kernel.state is State.DISABLED:
        return lingering(left_behind(host))
    return unsettled(host) or taken(host)


def without_sched_ext(host: Snapshot) -> Refused | None:
    """Why this kernel will never run a scheduler of anybody's."""
    if host.kernel.state is not State.ABSENT:
        return None
    what = "this kernel has no sched_ext"
    return Refused(what, "it can only run its own scheduler", "`schedctl doctor` says what the kernel lacks")


def unsettled(host: Snapshot) -> Refused | None:
    """Why nothing can be decided now: the kernel is between two states, or cannot be read."""
    kernel = host.kernel
    if kernel.state.is_settled:
        return None
    why = kernel.problem or f"its state is `{kernel.state}`"
    if kernel.is_moving:
        return Refused("the kernel is still changing schedulers", why, "try again in a moment")
    return Refused("the kernel's state is not known", why, "run schedctl as root, on the host")


def lingering(left: Leftovers) -> Refused | None:
    """On some kernels the late end of an old link takes the next scheduler along."""
    if left.processes:
        return _held_by(left.processes[0])
    if left.pinned:
        what = (
            f"the kernel has ejected {left.pinned[0].ops}, but its link is still pinned in a BPF filesystem"
        )
        why = "when that link ends, the next scheduler may be detached with it"
        remedy = "remove the link's file first; BPF filesystems are usually mounted at /sys/fs/bpf"
        return Refused(what, why, remedy)
    if left.gaps:
        what = "it is not known whether a process still holds an ejected scheduler"
        return Refused(what, "; ".join(left.gaps), "run schedctl as root, on the host, or add --force")
    return None


def _held_by(process: Process) -> Refused:
    what = f"process {process.pid} ({process.command}) still holds a scheduler that the kernel has ejected"
    why = "when that process ends, the next scheduler may be detached with it"
    return Refused(what, why, "end the process first: `schedctl reset`")


def taken(host: Snapshot) -> Refused:
    """Why there is no room for another scheduler: the kernel runs one."""
    refused = _taken(host.ops, host.owner)
    return refused._replace(remedy="end its leftover process: `schedctl reset`") if host.stray else refused


def _taken(ops: str, owner: Owner) -> Refused:
    what = f"the kernel runs {ops} already"
    if owner.kind is OwnerKind.ORPHAN:
        return Refused(what, f"it belongs to no process: {owner.reason}", EJECT)
    if owner.kind is OwnerKind.UNKNOWN:
        return Refused(what, f"its owner is not known: {owner.reason}", "`schedctl status` says more")
    return Refused(what, f"it belongs to {owner}", f"end that scheduler first: {way_to_end(owner)}")


def plan_stop(host: Snapshot, container: Container, *, is_forced: bool = False) -> Plan | Refused:
    """What ends a container, and with it its hold on the kernel."""
    owner = host.owner
    if owner.pod_uid and not is_forced:
        return of_kubernetes(owner, "to stop schedkit's container anyway, add --force")
    is_kept = owner.container_id == container.id and not owner.ends_with_process
    ejection = (Eject(),) if is_kept else ()
    stray = host.stray if owner.container_id == container.id else None
    strays = (EndProcess(stray),) if stray else ()
    return Plan((Stop(container), *strays, AwaitRelease(container), *ejection, Discard(container)))


def of_kubernetes(owner: Owner, remedy: str) -> Refused:
    """Why nothing is changed on a node without being forced."""
    why = "Kubernetes decides which scheduler runs on this machine"
    return Refused(f"the scheduler belongs to {owner}", why, remedy)


def choose(host: Snapshot, word: str | None) -> Container | Refused:
    """The container of that name or id, or the beginning of one.

    Without a word it is the only one that runs, else the only one there is.
    """
    known = host.containers or ()
    if not word:
        return _only(host.running or known, host)
    found = [each for each in known if each.name == word] or [
        each for each in known if len(word) >= SHORTEST_ID and each.id.startswith(word)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        return Refused(f"several container IDs begin with {word!r}", named(found), "write more of the ID")
    why = f"there is {named(known)}" if known else "schedkit has no containers"
    return Refused(f"no container is called {word!r}", why, "`schedctl ps` lists the containers")


def _only(candidates: Sequence[Container], host: Snapshot) -> Container | Refused:
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        remedy = "add the ID or name of a container; `schedctl ps` lists them"
        return Refused("it is not clear which container is meant", f"there are {named(candidates)}", remedy)
    return _nothing(host.ops, host.owner)


def _nothing(ops: str, owner: Owner) -> Refused:
    what = "schedkit has no containers here"
    if owner.kind is OwnerKind.NONE:
        return Refused(what, "the kernel runs its own scheduler", "`schedctl run NAME` starts a scheduler")
    return _taken(ops, owner)._replace(what=f"{what}, but the kernel runs {ops}")


def named(containers: Iterable[Container]) -> str:
    """All of them, as users know them."""
    return ", ".join(map(str, containers))
