"""SchedExts at a glance: each with its counts, and the nodes that need attention, as statuses say it."""

from __future__ import annotations

import msgspec

from schedkit.model.api.conditions import legible
from schedkit.model.api.schedext import (
    Condition,
    ConditionStatus,
    ConditionType,
    NodeCounts,
    NodeTrouble,
    SchedExt,
    SchedExtStatus,
)


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """One SchedExt."""

    namespace: str
    name: str
    sched: str
    desired: int
    attached: int
    ready: str  # True, False or Unknown
    reason: str
    message: str
    troubled: tuple[NodeTrouble, ...] = ()
    more_troubled: int = 0  # nodes that are counted and not named


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    """All of them, by namespace and name."""

    items: tuple[Entry, ...]


def overview(schedexts: list[SchedExt]) -> Overview:
    """What their statuses say; one that nobody has looked at is Unknown."""
    return Overview(tuple(sorted(map(_entry, schedexts), key=lambda each: (each.namespace, each.name))))


def _entry(schedext: SchedExt) -> Entry:
    status, meta = schedext.status or SchedExtStatus(), schedext.metadata
    ready = next((each for each in status.conditions if each.type == ConditionType.READY.value), None)
    told = ready or Condition(
        status=ConditionStatus.UNKNOWN, reason="NotSeen", message="no manager has looked at it yet"
    )
    counts = status.nodes or NodeCounts()
    named = tuple(_legible(each) for each in status.worst_nodes)
    return Entry(
        namespace=meta.namespace,
        name=meta.name,
        sched=legible(schedext.spec.sched),
        desired=counts.desired,
        attached=counts.attached,
        ready=str(told.status),
        reason=legible(told.reason),
        message=legible(told.message),
        troubled=named,
        more_troubled=max(0, sum(each.nodes for each in status.troubles) - len(named)),
    )


def _legible(trouble: NodeTrouble) -> NodeTrouble:
    name, reason, message = map(legible, (trouble.name, trouble.reason, trouble.message))
    return NodeTrouble(name=name, reason=reason, message=message)
