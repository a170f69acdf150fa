"""What to write about a SchedExt: its status, and an event for each condition that changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from schedkit.model.api.conditions import WARNINGS, Reason
from schedkit.model.api.schedext import Condition, ConditionType, SchedExtStatus
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import DaemonSetWrite, Decision, is_being_deleted
from schedkit.model.report.fleet import Fleet
from schedkit.model.report.status import compute_status


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the SchedExt's status, if the SchedExt is still of this version."""

    name: str
    resource_version: str
    status: SchedExtStatus


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Tell that an answer changed."""

    is_warning: bool
    reason: str
    message: str


Action: TypeAlias = DaemonSetWrite | WriteStatus | RecordEvent


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and when to look again although nothing happened."""

    actions: tuple[Action, ...] = ()
    look_again_at: datetime | None = None  # None: something must happen first


def plan_report(observation: Observation, decision: Decision, fleet: Fleet) -> Plan:
    """The status, if it changed, and an event for each answer that did."""
    if is_being_deleted(observation):
        return Plan()
    meta, before = observation.schedext.metadata, observation.schedext.status or SchedExtStatus()
    after, look_again_at = compute_status(observation, decision, fleet), fleet.next_change(observation.now)
    if after == before:
        return Plan(look_again_at=look_again_at)
    events = transitions(before.conditions, after.conditions)
    return Plan((WriteStatus(meta.name, meta.resource_version, after), *events), look_again_at)


def transitions(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> Iterator[RecordEvent]:
    """An event for each answer whose status or reason changed; a first answer is news if it is a warning.

    Where no pod can run, Ready says what Deployed says: that is told once.
    """
    known = {each.type: (each.status, each.reason) for each in before}
    told: set[tuple[str, str]] = set()
    for each in after:
        is_warning = Reason(each.reason) in WARNINGS
        is_news = known[each.type] != (each.status, each.reason) if each.type in known else is_warning
        if is_news and not (each.type == ConditionType.READY and (each.reason, each.message) in told):
            told.add((each.reason, each.message))
            yield RecordEvent(is_warning, each.reason, f"{each.type} is {each.status}: {each.message}")
