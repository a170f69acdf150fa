"""Ends of schedulers that hold a node, from its report.

An end counts as long as the pod is there whose scheduler ended, and nobody deletes it. So no end holds a node
twice, without a memory of what was seen: a hold ends the pod, and a resume brings another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from schedkit.model.api.schedextnode import NodeExit
from schedkit.model.claims.sites import Site, SitePod
from schedkit.model.kernel.log import ExitKind

WINDOW = timedelta(minutes=30)


def sysrq_pod(site: Site) -> SitePod | None:
    """The pod whose scheduler a human stopped with SysRq-S; None: that did not happen."""
    for ended in site.report.exits if site.report else ():
        pod = _pod_of(site, ended) if ended.kind == ExitKind.SYSRQ else None
        if pod is not None:
            return pod
    return None


def ejected_pods(site: Site) -> Iterator[tuple[SitePod, list[NodeExit]]]:
    """Each pod that the kernel threw out, with how."""
    exits = site.report.exits if site.report else ()
    ejects = [(_pod_of(site, each), each) for each in exits if each.kind >= ExitKind.ERROR]
    for pod in site.pods:
        own = [ended for whose, ended in ejects if whose == pod]
        if own:
            yield pod, own


def count_lately(ejects: list[NodeExit]) -> int:
    """How many of them are in the half hour before the last one, by the node's own clock."""
    last = max((each.time for each in ejects if each.time is not None), default=None)
    if last is None:
        return sum(each.count for each in ejects)
    return sum(_count_since(each, last - WINDOW) for each in ejects)


def _count_since(ended: NodeExit, begin: datetime) -> int:
    """An entry that counts many ends tells the first and the last: those between are spread evenly."""
    if ended.time is None or ended.time < begin:
        return 0
    first = ended.first_time or ended.time
    if first >= begin or ended.count <= 1:
        return ended.count
    return 1 + int((ended.count - 1) * ((ended.time - begin) / (ended.time - first)))


def _pod_of(site: Site, ended: NodeExit) -> SitePod | None:
    """The pod whose scheduler ended; where nobody saw whose it was, the only one that is there."""
    staying = [each for each in site.pods if not each.is_ending]
    if ended.owner:
        return next((each for each in staying if each.uid == ended.pod_uid), None)
    if len(site.pods) != 1 or not staying:
        return None
    pod = staying[0]
    is_before = pod.started is None or ended.time is None or ended.time < pod.started
    return None if is_before else pod
