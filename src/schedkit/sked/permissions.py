"""Every call `sked` makes to the API server, and why: its RBAC is generated from these tables alone.

A call that is not listed here is refused in a cluster; one that is listed and never made is a needless risk.
The audit log of the tests is compared with both.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedkit.model.api import schedextnode
from schedkit.model.api.schedext import GROUP, PLURAL

LEASE_NAME = "b4c95cb3.schedkit.io"


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on one resource, with the reason for them."""

    group: str  # "": the core group
    resource: str  # with its subresource: `schedexts/status`
    verbs: tuple[str, ...]
    reason: str
    names: tuple[str, ...] = ()  # empty: objects of any name


_OF_METRICS = (
    Permission("authentication.k8s.io", "tokenreviews", ("create",), "who asks for metrics"),
    Permission(
        "authorization.k8s.io",
        "subjectaccessreviews",
        ("create",),
        "whether the client that asks may read metrics",
    ),
)

EVERYWHERE = (
    Permission(
        GROUP,
        PLURAL,
        ("get", "list", "watch"),
        "what users ask for; `get` tells whether a SchedExt still exists",
    ),
    Permission(GROUP, f"{PLURAL}/status", ("update",), "the state of each SchedExt"),
    Permission(
        GROUP,
        f"{PLURAL}/finalizers",
        ("update",),
        "the admission plugin OwnerReferencesPermissionEnforcement demands this permission "
        "to create a DaemonSet that a SchedExt owns",
    ),
    Permission(
        "apps",
        "daemonsets",
        ("get", "list", "watch", "create", "patch", "delete"),
        "one DaemonSet for each SchedExt; `get` reads a DaemonSet of the same name that sked did not make",
    ),
    Permission("", "pods", ("list", "watch"), "how the schedulers are doing, and the agents on the nodes"),
    Permission("", "nodes", ("list", "watch"), "which boot of which node a report must be about"),
    Permission(GROUP, schedextnode.PLURAL, ("list", "watch"), "what the kernel of each node runs"),
    Permission("", "events", ("list", "watch"), "why the pods of a DaemonSet are refused"),
    Permission(
        "events.k8s.io",
        "events",
        ("create", "patch"),
        "one event for each changed condition, and one on a Node for each burst of ejects; "
        "if it repeats, only its count changes",
    ),
    *_OF_METRICS,
)
"""In all namespaces: users choose where their SchedExts live."""

IN_OWN_NAMESPACE = (
    # a request to create an object does not name it, so that it cannot be limited to a name
    Permission("coordination.k8s.io", "leases", ("create",), "the first manager creates the lease"),
    Permission(
        "coordination.k8s.io",
        "leases",
        ("get", "patch"),
        "which of several managers acts",
        names=(LEASE_NAME,),
    ),
)
"""In the namespace that the manager itself runs in."""

OF_AGENTS = (
    Permission(
        GROUP,
        schedextnode.PLURAL,
        ("get", "create", "patch"),
        "the report of the agent's own node: a policy compares the node with the agent's token",
    ),
)
"""Of the agent on each node; reports belong to no namespace."""

OF_AGENTS_WITH_METRICS = _OF_METRICS
"""Beside those of all agents, where agents serve metrics."""
