"""Every call `sked` makes to the API server, and why: its RBAC is generated from these tables alone.

A call that is not listed here is refused in a cluster; one that is listed and never made is a needless risk.
The audit log of the tests is compared with both.
"""

from __future__ import annotations

from dataclasses import dataclass

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


EVERYWHERE = (
    Permission(
        GROUP, PLURAL, ("get", "list", "watch"), "what users ask for; `get` tells whether they still do"
    ),
    Permission(GROUP, f"{PLURAL}/status", ("update",), "the answer to it"),
    Permission(
        GROUP,
        f"{PLURAL}/finalizers",
        ("update",),
        "OwnerReferencesPermissionEnforcement asks it of whoever makes a DaemonSet that a SchedExt owns",
    ),
    Permission(
        "apps",
        "daemonsets",
        ("get", "list", "watch", "create", "patch", "delete"),
        "one for each SchedExt; `get` looks at one of the same name that is not ours",
    ),
    Permission("", "pods", ("list", "watch"), "how the schedulers are doing"),
    Permission("", "nodes", ("list", "watch"), "for the ownership of nodes to come; nothing reads them yet"),
    Permission("", "events", ("list", "watch"), "why the pods of a DaemonSet are refused"),
    Permission("events.k8s.io", "events", ("create", "patch"), "one for each changed answer, then its count"),
    Permission("authentication.k8s.io", "tokenreviews", ("create",), "who asks for metrics"),
    Permission("authorization.k8s.io", "subjectaccessreviews", ("create",), "whether they may have them"),
)
"""In all namespaces: users choose where their SchedExts live."""

IN_OWN_NAMESPACE = (
    # a request to create an object does not name it, so that it cannot be limited to a name
    Permission("coordination.k8s.io", "leases", ("create",), "the first manager of a cluster"),
    Permission(
        "coordination.k8s.io",
        "leases",
        ("get", "patch"),
        "which of several managers acts",
        names=(LEASE_NAME,),
    ),
)
"""In the namespace that the manager itself runs in."""
