"""What a look at a machine finds in its processes, as values: what tests of decisions begin with."""

from __future__ import annotations

from schedkit.model.host.holders import HeldLink, HeldObjects, SchedulerMap
from schedkit.model.host.processes import Process

_SOME_LINK, _FIRST_MAP = 999, 1000


def held(
    *processes: Process,
    pinned: tuple[SchedulerMap, ...] = (),
    registered: tuple[SchedulerMap, ...] = (),
    gaps: tuple[str, ...] = (),
) -> HeldObjects:
    """That each of these is left of a scheduler that the kernel has ejected, and nothing else is held."""
    links = (HeldLink(each.pid, map_id, map_id) for map_id, each in enumerate(processes, start=_FIRST_MAP))
    return HeldObjects(
        processes,
        tuple(links),
        schedulers=(*pinned, *registered),
        pinned_links=frozenset({_SOME_LINK} if pinned else ()),
        gaps=gaps,
    )
