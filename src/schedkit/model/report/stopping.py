"""Which nodes still run what somebody has stopped, by their kernels' own word."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from schedkit.model.api.reports import ReportStatus
from schedkit.model.report.sights import is_enabled


class Remaining(msgspec.Struct, frozen=True):
    """A node on which a stop has not come to its end."""

    node: str
    reason: str


def remaining(
    ran: Mapping[str, str], pods: Collection[str], reports: Mapping[str, ReportStatus]
) -> tuple[Remaining, ...]:
    """`ran`: the nodes of the pods that ran it, by the pods' uids; `pods`: the uids of those still there."""
    return tuple(sorted(_remaining(ran, pods, reports), key=lambda each: each.node))


def _remaining(
    ran: Mapping[str, str], pods: Collection[str], reports: Mapping[str, ReportStatus]
) -> Iterator[Remaining]:
    for uid, node in ran.items():
        report = reports.get(node)
        if report is not None and is_enabled(report) and report.owner.pod_uid == uid:
            yield Remaining(node, "its kernel still runs the scheduler")
        elif uid in pods:
            yield Remaining(node, "its pod is not gone yet")


def unreported(ran: Mapping[str, str], reports: Mapping[str, ReportStatus]) -> tuple[str, ...]:
    """Nodes whose kernels nobody speaks for: there the end of the pod is all that is known."""
    return tuple(sorted({node for node in ran.values() if node not in reports}))
