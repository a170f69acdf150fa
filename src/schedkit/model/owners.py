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
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from schedkit.model.kernel import SchedExt, State

_CONTAINER = re.compile(r"(?:^|[-/:])([0-9a-f]{64})(?:\.scope)?(?=/|$)")
_POD = re.compile(
    r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?=[/:]|$)"
)
_OUR_NAMESPACE = "schedkit"  # of containerd, which names control groups after it
_UNIT = re.compile(r"([^/]+\.(?:service|scope))(?=/|$)")


class Process(msgspec.Struct, frozen=True):
    """A process that holds a link or a map."""

    pid: int
    ancestors: tuple[int, ...] = ()  # its parent first
    command: str = ""
    cgroups: tuple[str, ...] = ()  # its paths, one for each hierarchy


class HeldLink(msgspec.Struct, frozen=True):
    """A struct_ops link among a process's open files."""

    pid: int
    link_id: int
    map_id: int


class HeldMap(msgspec.Struct, frozen=True):
    """A struct_ops map among a process's open files."""

    pid: int
    map_id: int


class SchedulerMap(msgspec.Struct, frozen=True):
    """A struct_ops map of sched_ext; those of TCP and others are none."""

    map_id: int
    ops: str
    is_registered: bool = False  # without a link
    is_sub: bool = False  # of a part of the control groups, below the attached one


class Evidence(msgspec.Struct, frozen=True):
    """All that was found, and what could not be looked at."""

    processes: tuple[Process, ...] = ()
    links: tuple[HeldLink, ...] = ()
    maps: tuple[HeldMap, ...] = ()
    schedulers: tuple[SchedulerMap, ...] = ()
    gaps: tuple[str, ...] = ()  # sentences; empty: it is complete


class Hold(StrEnum):
    """What keeps a scheduler attached."""

    NOTHING = "nothing"  # none is attached
    LINK = "link"  # ends with its process
    MAP = "map"  # its process lives, but its end alone would not detach it
    NOBODY = "nobody"  # no process would take it along
    UNKNOWN = "unknown"


class Proof(msgspec.Struct, frozen=True):
    """Which process holds the attached scheduler."""

    hold: Hold
    process: Process | None = None  # None: there is none, or it is unknown
    reason: str = ""  # of `NOBODY` and `UNKNOWN`, as a sentence
    map_id: int | None = None  # None: unknown


def prove(kernel: SchedExt, evidence: Evidence) -> Proof:
    """The holder of what the kernel runs; `UNKNOWN` rather than a guess."""
    if kernel.state is not State.ENABLED:
        return Proof(Hold.NOTHING)
    if evidence.gaps:
        return Proof(Hold.UNKNOWN, reason="; ".join(evidence.gaps))
    roots = [each for each in evidence.schedulers if each.ops == kernel.ops and not each.is_sub]
    links = [link for link in evidence.links if link.map_id in {each.map_id for each in roots}]
    loose = [each for each in roots if _may_be_attached_unseen(each, evidence)]
    if links and loose:
        return _ambiguous([max(link.map_id for link in links), *(each.map_id for each in loose)])
    return _held_by_link(links, evidence) if links else _held_by_map(loose, evidence)


def _may_be_attached_unseen(scheduler: SchedulerMap, evidence: Evidence) -> bool:
    """Whether it may be attached although no process holds a link to it."""
    is_linked = any(link.map_id == scheduler.map_id for link in evidence.links)
    is_open = any(held.map_id == scheduler.map_id for held in evidence.maps)
    # a map that somebody holds without a registration was loaded and waits for its turn
    return scheduler.is_registered or not (is_linked or is_open)


def _ambiguous(map_ids: Iterable[int]) -> Proof:
    named = " and ".join(str(each) for each in sorted(map_ids))
    return Proof(
        Hold.UNKNOWN, reason=f"BPF maps {named} have the same name, and each may be the attached one"
    )


def _held_by_link(links: Sequence[HeldLink], evidence: Evidence) -> Proof:
    newest = max(links, key=lambda link: link.link_id)
    pids = {link.pid for link in links if link.link_id == newest.link_id}
    return _held(Hold.LINK, pids, newest.map_id, evidence)


def _held_by_map(loose: Sequence[SchedulerMap], evidence: Evidence) -> Proof:
    open_ids = {held.map_id for held in evidence.maps}
    held = [each for each in loose if each.map_id in open_ids]
    if not held:
        return _held_by_nobody(loose)
    if len(loose) > 1:
        return _ambiguous(each.map_id for each in loose)
    pids = {each.pid for each in evidence.maps if each.map_id == held[0].map_id}
    return _held(Hold.MAP, pids, held[0].map_id, evidence)


def _held_by_nobody(loose: Sequence[SchedulerMap]) -> Proof:
    if not loose:
        return Proof(Hold.UNKNOWN, reason="no BPF map in the kernel has the attached scheduler's name")
    map_id = loose[0].map_id if len(loose) == 1 else None
    if any(each.is_registered for each in loose):
        return Proof(
            Hold.NOBODY, reason="it was registered without a link, and its loader is gone", map_id=map_id
        )
    return Proof(
        Hold.NOBODY, reason="no process holds its link: it is pinned in a BPF filesystem", map_id=map_id
    )


def _held(hold: Hold, pids: set[int], map_id: int, evidence: Evidence) -> Proof:
    holders = [process for process in evidence.processes if process.pid in pids]
    eldest = [each for each in holders if not pids.intersection(each.ancestors)]  # children inherit files
    if not eldest:
        return Proof(Hold.UNKNOWN, reason="its process ended while it was looked at")
    if len({process.cgroups for process in eldest}) > 1:
        named = ", ".join(str(process.pid) for process in eldest)
        return Proof(Hold.UNKNOWN, reason=f"processes {named} share it, and belong to different units")
    return Proof(hold, min(eldest, key=lambda process: process.pid), map_id=map_id)


def leftovers(kernel: SchedExt, evidence: Evidence) -> tuple[Process, ...]:
    """Processes that hold a link of a scheduler that is not attached any more.

    On 6.x kernels the late end of such a link takes the next scheduler along: no other may start before.
    """
    attached = prove(kernel, evidence).map_id
    own = {each.map_id for each in evidence.schedulers if not each.is_sub} - {attached}
    pids = {link.pid for link in evidence.links if link.map_id in own}
    return tuple(process for process in evidence.processes if process.pid in pids)


class Place(msgspec.Struct, frozen=True):
    """Where a process belongs, by its control groups. Empty: it belongs to none such."""

    container_id: str = ""
    pod_uid: str = ""
    unit: str = ""


def place_of(process: Process) -> Place:
    """The innermost container, the pod and the systemd unit that a process is in."""
    paths = "\n".join(process.cgroups)
    containers, pods = _CONTAINER.findall(paths), _POD.findall(paths)
    units = [unit for unit in _UNIT.findall(paths) if not _CONTAINER.search(unit)]
    return Place(_last(containers), _last(pods).replace("_", "-"), _last(units))


def _last(found: Sequence[str]) -> str:
    return found[-1] if found else ""


def is_in_container(process: Process, container_id: str, first_pid: int) -> bool:
    """Whether the process is the container's first, descends from it, or is in its control group."""
    if first_pid > 0 and first_pid in (process.pid, *process.ancestors):
        return True
    if container_id and container_id in {
        found for path in process.cgroups for found in _CONTAINER.findall(path)
    }:
        return True
    own_group = f"/{_OUR_NAMESPACE}/{container_id}/"
    return bool(container_id) and any(own_group in f"{path}/" for path in process.cgroups)
