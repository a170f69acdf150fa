"""Nodes, as the API server serves them."""

from __future__ import annotations

from schedkit.model.api.schema import ApiType, Unique


class Taint(ApiType, frozen=True):
    """What keeps pods away from a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeMeta(ApiType, frozen=True):
    """What identifies a node, and what it is chosen by."""

    name: str = ""  # each of its pods says it too
    namespace: str = ""  # always empty
    uid: Unique = ""
    resource_version: Unique = ""
    labels: dict[str, str] = {}


class NodeSpec(ApiType, frozen=True):
    """Who may run on a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class Node(ApiType, frozen=True):
    """A machine of the cluster, as far as it matters to whom it is given."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
