"""Builders of reports, and of what a manager sees of nodes: they fill in what a test is not about."""

from __future__ import annotations

from typing import Any

import msgspec

from rig.builders.observations import ago
from schedkit.model.api.nodes import Node, NodeCondition, NodeInfo, NodeMeta, NodeStatus
from schedkit.model.api.pods import AgentCondition, AgentMeta, AgentPod, AgentSpec, AgentStatus
from schedkit.model.api.reports import Report, ReportKernel, ReportMeta, ReportOwner, ReportStatus
from schedkit.model.api.schedextnode import Eligibility, NodeExit, NodeOwnerKind
from schedkit.model.report.sights import Sight

BOOT, NODE_UID = "this-boot", "this-node"


def node(name: str = "node-1", *, ready: bool = True, boot: str = BOOT, **meta: Any) -> Node:
    return Node(
        metadata=NodeMeta(**{"name": name, "uid": NODE_UID, "resource_version": "30", **meta}),
        status=NodeStatus(
            conditions=(NodeCondition(type="Ready", status=str(ready)),), node_info=NodeInfo(boot_id=boot)
        ),
    )


def of_pod(uid: str = "node-1-pod") -> ReportOwner:
    return ReportOwner(kind=NodeOwnerKind.POD, pod_uid=uid)


def attached(owner: ReportOwner | None = None, **status: Any) -> ReportStatus:
    """A report that a scheduler is attached, which belongs to the pod on node-1 unless said otherwise."""
    return report(**{"state": "enabled", "owner": owner or of_pod(), **status})


def report(**status: Any) -> ReportStatus:
    """A report of this boot of this node that no scheduler is attached."""
    known = {
        "node_uid": NODE_UID,
        "kernel": ReportKernel(boot_id=BOOT),
        "state": "disabled",
        "owner": ReportOwner(kind=NodeOwnerKind.NONE),
        "eligible": Eligibility.YES,
    }
    return ReportStatus(**{**known, **status})


def ended(kind: int, *, s_ago: float = 5, **words: Any) -> NodeExit:
    """The end of a scheduler."""
    return NodeExit(**{"ops": "simple", "kind": kind, "time": ago(s_ago), "log_time": 1, **words})


STALL = ended(
    1026,
    reason="runnable task stall",
    message="stress[42] failed to run for 5.001s",
    task="stress[42]",
)


def sight(seen: ReportStatus | None = None, **beside: Any) -> Sight:
    """A Ready node with a ready agent and that report, as a manager sees it."""
    return Sight(**{"node": node(), "report": seen, "has_agent": True, **beside})


def served(status: ReportStatus, name: str = "node-1", *, version: int = 40) -> Report:
    """The report as an object."""
    return Report(
        metadata=ReportMeta(name=name, resource_version=str(version)),
        status=status,
    )


def agent(name: str = "node-1", *, ready: bool = True, version: int = 50) -> AgentPod:
    """The agent's pod on that node."""
    return AgentPod(
        metadata=AgentMeta(name=f"agent-{name}", namespace="sked-node", resource_version=str(version)),
        spec=AgentSpec(node_name=name),
        status=AgentStatus(conditions=(AgentCondition(type="Ready", status=str(ready)),)),
    )


def ejected_again(seen: ReportStatus, kind: NodeExit = STALL) -> ReportStatus:
    """The report after one more eject of that kind."""
    return msgspec.structs.replace(seen, exits=(*seen.exits, kind))
