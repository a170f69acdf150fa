"""What is seen of a pod's node beside the pod: the Node, its agent, and the report about its kernel.

Moments are by the manager's own clock, when it first saw something: clocks of nodes may be a day off, and a
report's dates are compared with nothing but other dates of the same node.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from schedkit.model.api.nodes import Node
from schedkit.model.api.pods import Pod
from schedkit.model.api.reports import Report, ReportStatus
from schedkit.model.api.schedextnode import NodeExit

EJECT = 1024  # the kernel's first number for an end that is an eject


class Sight(msgspec.Struct, frozen=True, gc=False):
    """A node, as the manager sees it at one moment."""

    node: Node | None = None  # None: it is gone, or not known yet
    report: ReportStatus | None = None  # None: there is none
    misfit: str = ""  # why the report cannot be decoded; empty: it can
    has_agent: bool = False
    silent_since: datetime | None = None  # since when no agent is ready there; None: one is
    is_unheard: bool = False  # no agent has been ready there since the manager began to look
    is_told_silent: bool = False  # so it was already, by the status of before the manager began to look
    joined_at: datetime | None = None  # when it was first seen; None: it was there before the manager
    rebooted_at: datetime | None = None  # since when its boot is not the report's; None: it is
    # since when the pod's container has run without being attached; None: it is attached, or does not run
    unattached_since: datetime | None = None
    has_neighbour: bool = False  # whether a pod of another SchedExt is on the node
    owner: Pod | None = None  # the pod of ours that owns what the kernel runs; None: it is none that is known
    # since when the report names a pod that is not known; None: it does not
    stranger_since: datetime | None = None


def is_attached(report: ReportStatus | None, pod: Pod) -> bool:
    """Whether the report says that the kernel runs the pod's scheduler."""
    return report is not None and is_enabled(report) and report.owner.pod_uid == pod.metadata.uid != ""


def boot_of_another_report(node: Node | None, report: ReportStatus | None) -> str | None:
    """The node's boot, if the report is about an earlier one of this very Node; None: it is not."""
    if node is None or report is None or node.metadata.uid != report.node_uid:
        return None
    boot = node.status.node_info.boot_id
    return boot if boot and boot != report.kernel.boot_id else None


def is_enabled(report: ReportStatus) -> bool:
    """Whether the kernel runs a scheduler, whoever's it is."""
    return report.state == "enabled"


def has_new_eject(old: Report | None, new: Report | None) -> bool:
    """Whether the kernel ejected a scheduler since the older report."""
    return not _ejects(new) <= _ejects(old)


def first_ejects(old: Report | None, new: Report | None) -> tuple[NodeExit, ...]:
    """The ejects that began a burst since the older report; what a first report holds is no news."""
    if old is None:
        return ()
    known = {_burst(each) for each in _ejects(old)}
    exits = new.status.exits if new and new.status else ()
    return tuple(each for each in exits if each.kind >= EJECT and _burst(each) not in known)


def _burst(ended: NodeExit) -> tuple[object, ...]:
    return ended.ops, ended.kind, ended.owner, ended.pod_uid, ended.first_time


def _ejects(report: Report | None) -> set[NodeExit]:
    exits = report.status.exits if report and report.status else ()
    return {each for each in exits if each.kind >= EJECT}


def tells_the_same(old: Node | None, new: Node | None) -> bool:
    """Whether nothing changed that a report is compared with, or that Ready follows from."""
    return old is not None and new is not None and _identity(old) == _identity(new)


def _identity(node: Node) -> tuple[str, str, bool, bool]:
    meta = node.metadata
    return meta.uid, node.status.node_info.boot_id, node.is_ready, meta.deletion_timestamp is None
