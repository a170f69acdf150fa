"""Which nodes still run what somebody has stopped, by their kernels' own word."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from schedkit.model.api.reports import ReportStatus
from schedkit.model.api.schedextnode import NodeOwnerKind

_ENDED = frozenset({"disabled", "absent"})
# what no process holds may be what the pod has left behind
_OF_NOBODY_KNOWN = frozenset({NodeOwnerKind.UNKNOWN, NodeOwnerKind.ORPHAN})


class Remaining(msgspec.Struct, frozen=True):
    """A node on which a stop has not come to its end."""

    node: str
    reason: str


def remaining(
    ran: Mapping[str, str], pods: Collection[str] | None, reports: Mapping[str, ReportStatus]
) -> tuple[Remaining, ...]:
    """The nodes that are left. What cannot be seen has not ended.

    `ran`: the nodes of the pods that ran it, by the pods' uids. `pods`: the uids of those still there; None:
    they cannot be seen now.
    """
    found = ((node, _why(uid, pods, reports.get(node))) for uid, node in ran.items())
    return tuple(sorted((Remaining(node, why) for node, why in found if why), key=lambda each: each.node))


def _why(uid: str, pods: Collection[str] | None, report: ReportStatus | None) -> str:
    """Why the node is left; empty: it is not."""
    if report is not None and report.state not in _ENDED:
        if report.owner.pod_uid == uid:
            return "its kernel still runs the scheduler"
        if report.owner.kind in _OF_NOBODY_KNOWN:
            return "its kernel runs a scheduler, and it is not proved whose"
    if pods is None:
        return "it cannot be seen whether its pod is gone"
    return "its pod is not gone yet" if uid in pods else ""


def unwitnessed(ran: Mapping[str, str], before: Mapping[str, ReportStatus]) -> tuple[str, ...]:
    """Nodes whose kernels were not proved to run it: there the end of the pod is all that is known.

    `before`: the reports at the time of the stop. One of an earlier boot or node proves nothing, either.
    """
    return tuple(sorted(set(_unwitnessed(ran, before))))


def _unwitnessed(ran: Mapping[str, str], before: Mapping[str, ReportStatus]) -> Iterator[str]:
    for uid, node in ran.items():
        said = before.get(node)
        if said is None or said.owner.pod_uid != uid:
            yield node
