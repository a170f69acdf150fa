"""Nodes, as the API server serves them."""

from __future__ import annotations

from datetime import datetime

from schedkit.model.api.schema import ApiType, Unique


class Taint(ApiType, frozen=True):
    """What keeps pods away from a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeMeta(ApiType, frozen=True):
    """Identity and labels of a node."""

    name: str = ""  # each of its pods says it too
    namespace: str = ""  # always empty
    uid: Unique = ""
    resource_version: Unique = ""
    labels: dict[str, str] = {}
    deletion_timestamp: datetime | None = None  # None: nobody deleted it


class NodeSpec(ApiType, frozen=True):
    """Which pods may run on a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeCondition(ApiType, frozen=True):
    """One question about a node, with its answer; without dates, so that thousands of nodes share one."""

    type: str = ""
    status: str = ""


class NodeInfo(ApiType, frozen=True):
    """What the kubelet says about the machine."""

    boot_id: Unique = ""


class NodeStatus(ApiType, frozen=True):
    """What the kubelet and the control plane say about a node."""

    conditions: tuple[NodeCondition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(ApiType, frozen=True):
    """A machine of the cluster: what decides which SchedExt gets it, and which reports are about it."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether Kubernetes calls it Ready."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)
