"""From one scheduler to another, and back to the kernel's own: what to do, as values.

`plan_switch` and `plan_reset` decide from one look at the machine. What is somebody else's ends only when its
process was named, and what a Kubernetes pod has only by force.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from schedkit.model.host.actions import (
    CLEAR,
    Action,
    AwaitAttachment,
    AwaitFree,
    AwaitRelease,
    AwaitReturn,
    Create,
    Discard,
    DiscardNew,
    Eject,
    EjectNew,
    EndProcess,
    Listen,
    Plan,
    ProveKept,
    Refused,
    Restart,
    Start,
    Stop,
    StopNew,
    Unregister,
)
from schedkit.model.host.containers import Container
from schedkit.model.host.holders import Leftovers
from schedkit.model.host.owners import OwnerKind, way_to_end
from schedkit.model.host.processes import Process, Proof, is_in_container, place_of
from schedkit.model.host.release import left_behind
from schedkit.model.host.run_stop_plans import (
    After,
    discard_leftovers,
    lingering,
    named,
    of_kubernetes,
    plan_run,
    taken,
    unregister_leftovers,
    unsettled,
    without_sched_ext,
)
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State

# whose scheduler a switch ends: ours, and somebody else's that was named
_OVERCOME = frozenset({OwnerKind.MANAGED, OwnerKind.FOREIGN})


class Wanted(NamedTuple):
    """What tells the scheduler that is asked for from others."""

    driver: str
    digest: str
    options: str

    def is_that_of(self, container: Container) -> bool:
        """Whether the container was made for the same."""
        return (container.driver, container.digest, container.options) == self


class Unchanged(NamedTuple):
    """The kernel runs what is asked for already."""

    container: Container


def plan_switch(
    host: Snapshot, wanted: Wanted, *, after: After = After.WAIT, evicted: int = 0, is_forced: bool = False
) -> Plan | Unchanged | Refused:
    """What replaces the scheduler that runs; all that can be prepared is, before the old one ends.

    `evicted` is the process of somebody else's scheduler that may be ended; 0: none.
    """
    if refused := _obstacle(host, evicted, is_forced=is_forced):
        return refused
    if not host.running and not evicted:
        return plan_run(host, after=after, is_forced=is_forced)
    old = next(iter(host.running), None)
    is_attached = old is not None and host.owner.container_id == old.id
    if old and is_attached and wanted.is_that_of(old):
        return Unchanged(old)
    return _replace(host, old if is_attached else None, after)


def _obstacle(host: Snapshot, evicted: int, *, is_forced: bool) -> Refused | None:
    if unable := without_sched_ext(host):
        return unable
    if len(host.running) > 1:
        why = f"there are {named(host.running)}"
        remedy = "stop all but one container (`schedctl stop ID`), or all of them: `schedctl reset`"
        return Refused("several of schedkit's containers run", why, remedy)
    if refused := _protected(host, evicted, is_forced=is_forced):
        return refused
    if is_forced:
        return None
    if host.kernel.state is State.DISABLED or host.owner.kind in _OVERCOME:
        return lingering(_of_others(host))
    return unsettled(host) or taken(host)


def _protected(host: Snapshot, evicted: int, *, is_forced: bool) -> Refused | None:
    """Why somebody else's scheduler stays: nobody named its process, or Kubernetes wants it."""
    owner = host.owner
    if evicted and owner.pid != evicted:
        unknown = "no process is known to hold the kernel's scheduler"
        why = f"the kernel runs the scheduler of {owner}" if owner.pid else unknown
        remedy = "`schedctl status` shows who owns the attached scheduler"
        return Refused(f"process {evicted} has no scheduler attached", why, remedy)
    if owner.kind is not OwnerKind.FOREIGN:
        return None
    if owner.pod_uid and not is_forced:
        return of_kubernetes(owner, f"{way_to_end(owner)}; or add --force and --evict {owner.pid}")
    if evicted:
        return None
    what = f"the kernel runs {host.ops}, which schedctl did not start"
    remedy = f"end it ({way_to_end(owner)}), or let schedctl end it: add --evict {owner.pid}"
    return Refused(what, f"it belongs to {owner}", remedy)


def _of_others(host: Snapshot) -> Leftovers:
    """What is left of schedulers that were not ours; ours are stopped anyway."""
    left = left_behind(host)
    return left._replace(processes=tuple(each for each in left.processes if not _is_ours(host, each)))


def _is_ours(host: Snapshot, process: Process) -> bool:
    return any(is_in_container(process, each.id, each.pid) for each in host.running)


def _replace(host: Snapshot, attached: Container | None, after: After) -> Plan:
    """Without `attached` there is nothing to come back: what runs of ours is not in the kernel."""
    create = (Create(), Listen()) if after is After.FOLLOW else (Create(),)
    start = (Start(), AwaitAttachment()) if after is After.WAIT else (Start(),)
    # there are none, unless it was said by force that they do not matter
    until_free = AwaitFree(tuple(each.pid for each in _of_others(host).processes), ended=_attached(host))
    # what is attached is gone with its process; a runtime takes longer to see that, and to tidy up
    is_awaited = attached is None or not host.owner.ends_with_process
    endings = (*_endings(host, is_awaited=is_awaited), until_free, *unregister_leftovers(host))
    steps = (*discard_leftovers(host), *create, *endings, *start)
    until_free_again = until_free._replace(unless=attached)
    way_back = (until_free_again, Restart(attached), AwaitReturn(attached)) if attached else ()
    return Plan(steps, CLEAR, way_back, tuple(map(Discard, host.kept)), next(iter(host.running), None))


def _attached(host: Snapshot) -> Snapshot | None:
    """What tells the attached scheduler from others, and no more: counters would make each plan another.

    A pinned link keeps it even after its process has ended.
    """
    if host.kernel.state is not State.ENABLED:
        return None
    kernel = KernelState(host.kernel.state, host.kernel.ops, host.kernel.enable_seq)
    return Snapshot(kernel, Proof(host.proof.hold, map_id=host.proof.map_id))


def _endings(host: Snapshot, *, is_awaited: bool = True) -> tuple[Action, ...]:
    """What takes whatever is attached out of the kernel."""
    process, owner = host.proof.process, host.owner
    other = process if owner.kind is OwnerKind.FOREIGN else host.stray
    others = (EndProcess(other),) if other else ()
    ejection = () if owner.ends_with_process else (Eject(),)
    return (*(Stop(each, is_awaited) for each in host.running), *others, *ejection)


def free_name(name: str, host: Snapshot) -> str:
    """The name, or with a number if a container has it that is there during the change."""
    taken_names = {each.name for each in host.kept}
    candidates = (name, *(f"{name}-{number}" for number in range(2, len(taken_names) + 2)))
    return next(each for each in candidates if each not in taken_names)


def plan_reset(host: Snapshot, *, evicted: int = 0, is_forced: bool = False) -> Plan | Refused:
    """What leads back to the kernel's own scheduler, from anywhere; no steps: nothing is left to do."""
    if refused := _not_to_be_reset(host, evicted, is_forced=is_forced):
        return refused
    left = _of_others(host)
    spared = left.processes if left.gaps else ()  # what they hold may be none of a scheduler
    others = () if spared else tuple(map(EndProcess, left.processes))
    is_dark = not host.kernel.state.is_settled or host.owner.kind is OwnerKind.UNKNOWN
    # one that ejects only what no process holds would fail before
    endings = tuple(each for each in _endings(host) if not isinstance(each, Eject) or not is_dark)
    ejection = (Eject(is_blind=True),) if is_dark else ()
    ends = (*endings, *ejection, *others)
    until_free = AwaitFree(tuple(each.pid for each in spared), ended=_attached(host))
    await_free = (until_free,) if ends and host.kernel.state is not State.ABSENT else ()
    return Plan((*ends, *await_free, *unregister_leftovers(host), *map(Discard, host.containers or ())))


def _not_to_be_reset(host: Snapshot, evicted: int, *, is_forced: bool) -> Refused | None:
    kernel = host.kernel
    if refused := _protected(host, evicted, is_forced=is_forced):
        return refused
    if is_forced and kernel.is_readable:
        return None
    if host.owner.kind is OwnerKind.UNKNOWN:
        why = f"its owner is not known: {host.owner.reason}"
        remedy = "run schedctl as root, on the host, or add --force to eject it"
        return Refused(f"the kernel runs {host.ops}", why, remedy)
    if moving := unsettled(host):
        return (
            moving._replace(remedy=f"{moving.remedy}; if nothing changes, add --force")
            if kernel.is_moving
            else moving
        )
    return _not_to_be_ended(_of_others(host))


def _not_to_be_ended(left: Leftovers) -> Refused | None:
    """Why processes that may hold an ejected scheduler go on."""
    if left.gaps and left.processes:
        return _perhaps_held(left)
    pods = [each for each in left.processes if place_of(each).pod_uid]
    if not pods:
        return None
    holder = f"process {pods[0].pid} of {place_of(pods[0]).pod_words}"
    what = f"{holder} still holds a scheduler that the kernel has ejected"
    why = "Kubernetes decides which scheduler runs on this machine"
    return Refused(what, why, "delete its pod, or add --force")


def _perhaps_held(left: Leftovers) -> Refused:
    """Why a process goes on that has a link: programs for TCP congestion control have such, too."""
    one = left.processes[0]
    what = f"it is not known whether process {one.pid} ({one.command}) holds a scheduler"
    remedy = "run schedctl as root, on the host; or add --force, which leaves that process alone"
    return Refused(what, "; ".join(left.gaps), remedy)


def describe(steps: Iterable[Action]) -> tuple[str, ...]:
    """What will be done, in words for somebody who may still say no."""
    return tuple(_describe(action) for action in steps)


def _describe(action: Action) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each action
    match action:
        case Stop(container):
            return f"stop {container}"
        case Discard(container):
            return f"remove {container}"
        case EndProcess(process):
            comes_back = ", which Kubernetes starts again" if place_of(process).pod_uid else ""
            return f"end process {process.pid} ({process.command}){comes_back}"
        case Eject():
            return "eject the scheduler from the kernel"
        case Unregister(scheduler):
            return f"remove what the ejected scheduler {scheduler.ops} has left in the kernel"
        case AwaitFree(ended=ended):
            waiting = "wait until the kernel runs its own scheduler"
            return f"{waiting}, and eject what stays without its process" if ended else waiting
        case AwaitRelease(container):
            return f"wait until the kernel has released {container}"
        case AwaitReturn(container):
            return f"wait until the kernel runs the scheduler of {container} again"
        case Restart(container):
            return f"start {container} again"
        case Create():
            return "create the new container"
        case Listen():
            return "listen to the new container's output"
        case Start():
            return "start the new container"
        case AwaitAttachment():
            return "wait until the kernel runs the new scheduler"
        case ProveKept():
            return "check whether the kernel would keep the new scheduler after its program ends"
        case StopNew():
            return "stop the new container"
        case DiscardNew():
            return "remove the new container"
        case EjectNew():
            return "eject what the new container has left in the kernel"
        case _:
            assert_never(action)
