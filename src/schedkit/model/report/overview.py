"""SchedExts at a glance: each with its counts, and the nodes that need attention, as statuses say it."""

from __future__ import annotations

import msgspec

from schedkit.model.api.conditions import legible
from schedkit.model.api.schedext import ConditionType, NodeCounts, NodeTrouble, SchedExtMeta, TroubleKind
from schedkit.model.api.schema import ApiType


class _ListedCondition(ApiType, frozen=True):
    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


class _ListedSpec(ApiType, frozen=True):
    sched: str = ""


class _ListedStatus(ApiType, frozen=True):
    nodes: NodeCounts | None = None
    worst_nodes: tuple[NodeTrouble, ...] = ()
    troubles: tuple[TroubleKind, ...] = ()
    conditions: tuple[_ListedCondition, ...] = ()


class Listed(ApiType, frozen=True):
    """A SchedExt with what is shown of it; words that only a newer operator knows stay as they are."""

    metadata: SchedExtMeta = SchedExtMeta()
    spec: _ListedSpec = _ListedSpec()
    status: _ListedStatus | None = None


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """One SchedExt."""

    namespace: str
    name: str
    sched: str
    desired: int
    attached: int
    ready: str  # True, False or Unknown, or what a newer operator says
    reason: str
    message: str
    troubled: tuple[NodeTrouble, ...] = ()
    more_troubled: int = 0  # nodes that are counted and not named


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    """All of them, by namespace and name."""

    items: tuple[Entry, ...]


def overview(schedexts: list[Listed]) -> Overview:
    """What their statuses say; one that nobody has looked at is Unknown."""
    return Overview(tuple(sorted(map(_entry, schedexts), key=lambda each: (each.namespace, each.name))))


def _entry(schedext: Listed) -> Entry:
    status, meta = schedext.status or _ListedStatus(), schedext.metadata
    ready = next((each for each in status.conditions if each.type == ConditionType.READY.value), None)
    told = ready or _ListedCondition(reason="NotSeen", message="no manager has looked at it yet")
    counts = status.nodes or NodeCounts()
    named = tuple(_legible(each) for each in status.worst_nodes)
    return Entry(
        namespace=meta.namespace,
        name=meta.name,
        sched=legible(schedext.spec.sched),
        desired=counts.desired,
        attached=counts.attached,
        ready=legible(told.status),
        reason=legible(told.reason),
        message=legible(told.message),
        troubled=named,
        more_troubled=max(0, sum(each.nodes for each in status.troubles) - len(named)),
    )


def _legible(trouble: NodeTrouble) -> NodeTrouble:
    name, reason, message = map(legible, (trouble.name, trouble.reason, trouble.message))
    return NodeTrouble(name=name, reason=reason, message=message)
