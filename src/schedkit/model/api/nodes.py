"""Nodes, as the API server serves them."""

from __future__ import annotations

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


class NodeSpec(ApiType, frozen=True):
    """Which pods may run on a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class Node(ApiType, frozen=True):
    """A machine of the cluster: the fields that decide which SchedExt gets it."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
