"""RBAC rules of the operator as YAML, each under the reason for it, from `schedkit.sked.permissions`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from schedkit.sked.permissions import (
    EVERYWHERE,
    IN_OWN_NAMESPACE,
    OF_AGENTS,
    OF_AGENTS_WITH_METRICS,
    Permission,
)

_API_VERSION = "rbac.authorization.k8s.io/v1"
_CONFIG = Path("config/rbac")
_AGENT = Path("config/agent")
_AGENT_METRICS = Path("config/agent-metrics")
_CHART = Path("charts/sked/files")
_HEAD = "# Generated from src/schedkit/sked/permissions.py by `make manifests`.\n"


def files() -> dict[Path, str]:
    """Each generated file, relative to the root, with its text; a chart sees no file outside of it."""
    cluster = _role("ClusterRole", "sked-manager-role")
    own = _role("Role", "sked-leader-election-role", namespace="sked-system")
    agents = _role("ClusterRole", "sked-node-agent-role")
    reviewers = _role("ClusterRole", "sked-node-agent-metrics-role")
    return {
        _AGENT_METRICS / "role.yaml": reviewers + _rules(OF_AGENTS_WITH_METRICS),
        _CHART / "agent-metrics-rules.yaml": _HEAD + _rules(OF_AGENTS_WITH_METRICS),
        _AGENT / "role.yaml": agents + _rules(OF_AGENTS),
        _CHART / "agent-rules.yaml": _HEAD + _rules(OF_AGENTS),
        _CONFIG / "role.yaml": cluster + _rules(EVERYWHERE),
        _CONFIG / "leader_election_role.yaml": own + _rules(IN_OWN_NAMESPACE),
        _CHART / "manager-rules.yaml": _HEAD + _rules(EVERYWHERE),
        _CHART / "leader-election-rules.yaml": _HEAD + _rules(IN_OWN_NAMESPACE),
    }


def _role(kind: str, name: str, **place: str) -> str:
    metadata = {"name": name, **place, "labels": {"app.kubernetes.io/name": "sked"}}
    return _HEAD + _yaml({"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata}) + "rules:\n"


def _rules(permissions: Iterable[Permission]) -> str:
    return "".join(_rule(permission) for permission in permissions)


def _rule(permission: Permission) -> str:
    """One item of a list, with the reason above it."""
    rule: dict[str, Any] = {
        "apiGroups": [permission.group],
        "resources": [permission.resource],
        "verbs": list(permission.verbs),
    }
    if permission.names:
        rule["resourceNames"] = list(permission.names)
    comment = textwrap.fill(permission.reason, 106, initial_indent="# ", subsequent_indent="# ")
    return textwrap.indent(f"{comment}\n{_yaml([rule])}", "  ")


def _yaml(value: object) -> str:
    return yaml.dump(value, sort_keys=False, width=110)
