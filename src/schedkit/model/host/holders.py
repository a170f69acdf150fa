"""Who owns the attached scheduler: proved from what processes hold open, never guessed from a name.

A scheduler lives as long as a BPF link that somebody holds, or, in the older way, as long as a struct_ops map
is registered without a link. The kernel says which links and maps a process holds, but not which one is
attached. That follows from three facts:

1. Attaching needs a kernel without a scheduler, and link numbers only grow. So the attached link is the one
   with the highest number; lower ones belong to ejected schedulers whose processes live on.
2. `root/ops` is a copy of the name inside the attached map. A map with another name is not attached. Equal
   names prove nothing.
3. A map that is registered without a link stays so after its loader's end, and even after its ejection.

Where these leave more than one answer, or where something could not be looked at, the owner is unknown.
Known gap: if a pinned link attaches a map again, a process that still holds an older link of that map is
reported as the owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.kernel.sched_ext import KernelState, State


class HeldLink(NamedTuple):
    """A struct_ops link among a process's open files."""

    pid: int
    link_id: int
    map_id: int


class HeldMap(NamedTuple):
    """A struct_ops map among a process's open files."""

    pid: int
    map_id: int


class SchedulerMap(NamedTuple):
    """A struct_ops map of sched_ext; those of TCP and others are none."""

    map_id: int
    ops: str
    is_registered: bool = False  # without a link
    is_sub: bool = False  # of a part of the control groups, below the attached one


class MapsReading(NamedTuple):
    """The schedulers among the kernel's maps, and the numbers of all its links."""

    schedulers: tuple[SchedulerMap, ...] = ()
    link_ids: frozenset[int] = frozenset()
    problem: str = ""  # why they are not all
    other_maps: frozenset[int] = frozenset()  # that are known to be no schedulers


class HeldObjects(NamedTuple):
    """All that was found, and what could not be looked at."""

    processes: tuple[Process, ...] = ()
    links: tuple[HeldLink, ...] = ()
    maps: tuple[HeldMap, ...] = ()
    schedulers: tuple[SchedulerMap, ...] = ()
    pinned_links: frozenset[int] = frozenset()  # of any kind: those that no process holds
    gaps: tuple[str, ...] = ()  # sentences; empty: it is complete
    other_maps: frozenset[int] = frozenset()  # that are known to be no schedulers


class Leftovers(NamedTuple):
    """What is left of schedulers that are not attached any more."""

    processes: tuple[Process, ...] = ()  # they hold a link
    pinned: tuple[SchedulerMap, ...] = ()  # no process holds them, and a link may be pinned
    registered: tuple[SchedulerMap, ...] = ()  # without a link: ejection leaves them so
    gaps: tuple[str, ...] = ()  # why there may be more; sentences

    @property
    def are_excluded(self) -> bool:
        """Whether it is sure that nothing is left."""
        return self == Leftovers()


def prove(kernel: KernelState, evidence: HeldObjects) -> Proof:
    """The holder of what the kernel runs; `UNKNOWN` rather than a guess."""
    if kernel.state is not State.ENABLED:
        return Proof(Hold.NOTHING)
    if evidence.gaps:
        return Proof(Hold.UNKNOWN, reason="; ".join(evidence.gaps))
    roots = [each for each in evidence.schedulers if each.ops == kernel.ops and not each.is_sub]
    links = [link for link in evidence.links if link.map_id in {each.map_id for each in roots}]
    newest = max((link.link_id for link in links), default=0)
    loose = [each for each in roots if _may_be_attached_unseen(each, evidence, newest)]
    if links and loose:
        return _ambiguous([max(link.map_id for link in links), *(each.map_id for each in loose)])
    return _held_by_link(links, evidence) if links else _held_by_map(loose, evidence)


def _may_be_attached_unseen(scheduler: SchedulerMap, evidence: HeldObjects, newest: int) -> bool:
    """Whether it may be attached although no process holds its link; `newest` is of those that are held."""
    if scheduler.is_registered:
        return True
    if any(link.map_id == scheduler.map_id for link in evidence.links):
        return False
    is_open = any(held.map_id == scheduler.map_id for held in evidence.maps)
    # an open one was loaded and waits for its turn, unless a link that nobody holds might be its
    return not is_open or any(link_id > newest for link_id in evidence.pinned_links)


def _ambiguous(map_ids: Iterable[int]) -> Proof:
    named = " and ".join(str(each) for each in sorted(map_ids))
    return Proof(
        Hold.UNKNOWN, reason=f"BPF maps {named} have the same name, and each may be the attached scheduler"
    )


def _held_by_link(links: Sequence[HeldLink], evidence: HeldObjects) -> Proof:
    newest = max(links, key=lambda link: link.link_id)
    pids = {link.pid for link in links if link.link_id == newest.link_id}
    return _held(Hold.LINK, pids, newest.map_id, evidence)


def _held_by_map(loose: Sequence[SchedulerMap], evidence: HeldObjects) -> Proof:
    open_ids = {held.map_id for held in evidence.maps}
    held = [each for each in loose if each.is_registered and each.map_id in open_ids]
    if not held:
        return _held_by_nobody(loose, evidence)
    if len(loose) > 1:
        return _ambiguous(each.map_id for each in loose)
    pids = {each.pid for each in evidence.maps if each.map_id == held[0].map_id}
    return _held(Hold.MAP, pids, held[0].map_id, evidence)


def _held_by_nobody(loose: Sequence[SchedulerMap], evidence: HeldObjects) -> Proof:
    if not loose:
        return Proof(Hold.UNKNOWN, reason="no BPF map in the kernel has the attached scheduler's name")
    map_id = loose[0].map_id if len(loose) == 1 else None
    if any(each.is_registered for each in loose):
        return Proof(
            Hold.NOBODY, reason="it was registered without a link, and its loader is gone", map_id=map_id
        )
    if not evidence.pinned_links:
        return Proof(
            Hold.UNKNOWN, reason="its link is neither held by a process nor pinned in a BPF filesystem"
        )
    return Proof(
        Hold.NOBODY, reason="no process holds its link: it is pinned in a BPF filesystem", map_id=map_id
    )


def _held(hold: Hold, pids: set[int], map_id: int, evidence: HeldObjects) -> Proof:
    holders = [process for process in evidence.processes if process.pid in pids]
    eldest = [each for each in holders if not pids.intersection(each.ancestors)]  # children inherit files
    if not eldest:
        return Proof(Hold.UNKNOWN, reason="its process ended while it was being inspected")
    if len({process.cgroups for process in eldest}) > 1:
        named = ", ".join(str(process.pid) for process in eldest)
        why = f"processes {named} share the scheduler, but belong to different containers or systemd units"
        return Proof(Hold.UNKNOWN, reason=why)
    return Proof(hold, min(eldest, key=lambda process: process.pid), map_id=map_id)


def leftovers(kernel: KernelState, evidence: HeldObjects) -> Leftovers:
    """What is left of a scheduler that is not attached any more; of any when that is unknown.

    On 6.x kernels the late end of a link takes the next scheduler along: no other may start before. A link
    counts unless it is known to be none of a scheduler. A registration without one is removed by itself, and
    whoever has its map open, as tools that watch BPF do, may go on.
    """
    attached = prove(kernel, evidence).map_id
    subs = {each.map_id for each in evidence.schedulers if each.is_sub}
    harmless = evidence.other_maps | subs | {attached}
    others = [each for each in evidence.schedulers if each.map_id not in harmless]
    pids = {link.pid for link in evidence.links if link.map_id not in harmless}
    return Leftovers(
        tuple(process for process in evidence.processes if process.pid in pids),
        tuple(each for each in others if _is_pinned(each, evidence)),
        tuple(each for each in others if each.is_registered),
        evidence.gaps,
    )


def _is_pinned(scheduler: SchedulerMap, evidence: HeldObjects) -> bool:
    """Whether nothing but a pinned link is known to keep it in the kernel."""
    held = {link.map_id for link in evidence.links} | {each.map_id for each in evidence.maps}
    return bool(evidence.pinned_links) and not scheduler.is_registered and scheduler.map_id not in held
