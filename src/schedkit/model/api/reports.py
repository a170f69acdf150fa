"""Reports of nodes, as the manager reads them: the fields of a `SchedExtNode` that decide something.

A manager holds one for each node of the fleet. What only people read is not decoded.
"""

from __future__ import annotations

from schedkit.model.api.schedextnode import Eligibility, NodeExit, NodeFinding, NodeOwnerKind
from schedkit.model.api.schema import ApiType, Unique


class ReportMeta(ApiType, frozen=True):
    """Identity of a report."""

    name: str = ""  # its node's, and each of its pods says it too
    namespace: str = ""  # always empty
    resource_version: Unique = ""


class ReportKernel(ApiType, frozen=True):
    """Which boot of its node a report is about."""

    boot_id: Unique = ""


class ReportOwner(ApiType, frozen=True):
    """Whose the attached scheduler is."""

    kind: NodeOwnerKind = NodeOwnerKind.UNKNOWN
    pod_uid: Unique = ""
    container_id: Unique = ""
    unit: str = ""
    program: str = ""
    reason: str = ""


class ReportStatus(ApiType, frozen=True):
    """What the agent saw."""

    node_uid: Unique = ""
    kernel: ReportKernel = ReportKernel()
    state: str = ""
    owner: ReportOwner = ReportOwner()
    eligible: Eligibility = Eligibility.UNKNOWN
    findings: tuple[NodeFinding, ...] = ()
    exits: tuple[NodeExit, ...] = ()


class Report(ApiType, frozen=True):
    """What the kernel of one node runs."""

    metadata: ReportMeta = ReportMeta()
    status: ReportStatus | None = None
