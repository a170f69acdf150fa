"""What managers may ask of an API server, and what they asked, by its audit log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rig.cluster.audit import AuditEvent
from schedkit.model.api.schedext import GROUP, PLURAL
from schedkit.sked.permissions import EVERYWHERE, IN_OWN_NAMESPACE

Call: TypeAlias = tuple[str, str, str]  # group, resource, verb

# nobody calls it: a plugin of the API server asks for it when a DaemonSet with an owner is made
NEVER_CALLED: Call = (GROUP, f"{PLURAL}/finalizers", "update")


def allowed() -> set[Call]:
    """Every call of the table that the operator's RBAC is made from."""
    return {
        (each.group, each.resource, verb) for each in (*EVERYWHERE, *IN_OWN_NAMESPACE) for verb in each.verbs
    }


def call(event: AuditEvent) -> Call:
    return event.raw.get("objectRef", {}).get("apiGroup", ""), event.resource, event.verb


def was_allowed(event: AuditEvent) -> bool:
    decision: str = event.raw["annotations"]["authorization.k8s.io/decision"]
    return decision == "allow"


def beyond(events: Iterable[AuditEvent]) -> set[Call]:
    """What was asked for and is not in the table."""
    return {call(each) for each in events} - allowed()
