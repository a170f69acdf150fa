"""What to write about a SchedExt: its status, and an event for each condition that changed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from schedkit.model.api.conditions import WARNINGS, Reason
from schedkit.model.api.schedext import Condition, ConditionType, SchedExtStatus
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import DaemonSetWrite, changes_pods, is_being_deleted, plan_daemon_set
from schedkit.model.report.fleet import Fleet, surveying
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


def reporting(observation: Observation) -> Generator[None, None, Plan]:
    """What to tell, as if the DaemonSet had been written already; it stops now and then to let others run."""
    if is_being_deleted(observation):
        return Plan()
    is_changing = any(changes_pods(write) for write in plan_daemon_set(observation))
    fleet = yield from surveying(observation, is_changing=is_changing)
    return Plan(plan_report(observation, fleet), fleet.next_change(observation.now))


def plan_report(observation: Observation, fleet: Fleet) -> tuple[Action, ...]:
    """The status, if it changed, and an event for each answer that did."""
    meta, before = observation.schedext.metadata, observation.schedext.status or SchedExtStatus()
    after = compute_status(observation, fleet)
    if after == before:
        return ()
    events = transitions(before.conditions, after.conditions)
    return (WriteStatus(meta.name, meta.resource_version, after), *events)


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
