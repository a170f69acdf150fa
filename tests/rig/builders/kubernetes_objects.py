"""Builders of Kubernetes objects: they fill in what a test is not about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rig.cluster.kubeclient import JsonObject

_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def config_map(name: str, **data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, *, image: str = "registry.example.com/app:1", **security: object) -> JsonObject:
    """A pod that fits the `restricted` profile, unless its security context says otherwise."""
    container = {"name": "app", "image": image, "securityContext": _RESTRICTED | security}
    spec = {"containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def daemon_set(name: str, *, nodes: Mapping[str, str], **pod_spec: Any) -> JsonObject:
    """A DaemonSet on the nodes with those labels."""
    labels = {"app": name}
    spec = {"nodeSelector": dict(nodes), **pod(name)["spec"], **pod_spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def scheduler_daemon_set(name: str, image: str, *, privileged: bool = True) -> JsonObject:
    """A DaemonSet that attaches a scheduler on every node, in the shape of what sked makes."""
    container = {
        "name": "scx",
        "image": image,
        "securityContext": {"privileged": privileged},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return daemon_set(name, nodes={}, containers=[container])


def role(name: str, allowed: Mapping[str, list[str]]) -> JsonObject:
    """A Role: what may be done with which resources of the core group."""
    rules = [{"apiGroups": [""], "resources": [kind], "verbs": verbs} for kind, verbs in allowed.items()]
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    return {**kind, "metadata": {"name": name}, "rules": rules}


def role_binding(name: str, *, user: str) -> JsonObject:
    """A RoleBinding of the Role of the same name."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
