"""What to do about a SchedExt: a few actions as values, and nothing if all is as it should be."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import msgspec

from schedkit.model.api.conditions import WARNINGS, Reason
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.schedext import Condition, ConditionType, SchedExtStatus
from schedkit.model.deploy.admission import vet
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.patch import Operation, Operations, differences, is_legacy
from schedkit.model.deploy.render import render
from schedkit.model.report.fleet import Fleet, surveying
from schedkit.model.report.status import compute_status


@dataclass(frozen=True, slots=True)
class CreateDaemonSet:
    """Create it; if somebody was faster, look again."""

    body: DaemonSet


@dataclass(frozen=True, slots=True)
class PatchDaemonSet:
    """Write our fields of this very DaemonSet in this very version; if it is another by now, look again."""

    name: str
    resource_version: str
    operations: Operations

    @property
    def body(self) -> Operations:
        """The JSON patch. The API server answers 409 if the version is another."""
        return (Operation("replace", "/metadata/resourceVersion", self.resource_version), *self.operations)


@dataclass(frozen=True, slots=True)
class DeleteDaemonSet:
    """Delete this very DaemonSet, and its pods after it."""

    name: str
    uid: str


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


DaemonSetWrite: TypeAlias = CreateDaemonSet | PatchDaemonSet | DeleteDaemonSet
Action: TypeAlias = DaemonSetWrite | WriteStatus | RecordEvent


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and when to look again although nothing happened."""

    actions: tuple[Action, ...] = ()
    look_again_at: datetime | None = None  # None: something must happen first


def reporting(observation: Observation) -> Generator[None, None, Plan]:
    """What to tell, as if the DaemonSet had been written already; it stops now and then to let others run."""
    if _is_being_deleted(observation):
        return Plan()
    is_changing = any(_changes_pods(write) for write in plan_daemon_set(observation))
    fleet = yield from surveying(observation, is_changing=is_changing)
    return Plan(plan_report(observation, fleet), fleet.next_change(observation.now))


def _is_being_deleted(observation: Observation) -> bool:
    """Owner references remove what is left of it."""
    return observation.schedext.metadata.deletion_timestamp is not None


def _changes_pods(write: DaemonSetWrite) -> bool:
    """Whether the DaemonSet's controller will have something to do; labels are not its business."""
    match write:
        case PatchDaemonSet(operations=operations):
            return any(operation.path.startswith("/spec/") for operation in operations)
        case CreateDaemonSet() | DeleteDaemonSet():
            return True


def plan_daemon_set(observation: Observation) -> tuple[DaemonSetWrite, ...]:
    """At most one write of the DaemonSet; none of one that is not ours."""
    if _is_being_deleted(observation):
        return ()
    observed, vetted = observation.daemon_set, vet(observation)
    wanted = render(observation.schedext, vetted.image)
    if observed is None:
        is_held = observation.schedext.spec.suspend or vetted.obstacle is not None
        return () if is_held else (CreateDaemonSet(wanted),)
    if not observation.is_ours or observed.metadata.deletion_timestamp is not None:
        return ()
    meta = observed.metadata
    if observation.schedext.spec.suspend:
        return (DeleteDaemonSet(meta.name, meta.uid),)
    if vetted.obstacle is not None:
        return ()
    operations = differences(observed, _kept_legacy(observation, observed, wanted))
    return (PatchDaemonSet(meta.name, meta.resource_version, operations),) if operations else ()


def _kept_legacy(observation: Observation, observed: DaemonSet, wanted: DaemonSet) -> DaemonSet:
    """With the pods of the Go sked, if they do what the spec asks for: an upgrade restarts nothing."""
    if not is_legacy(observed, observation.schedext):
        return wanted
    spec = msgspec.structs.replace(wanted.spec, template=observed.spec.template)
    return msgspec.structs.replace(wanted, spec=spec)


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
