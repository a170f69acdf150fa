"""What to do about a SchedExt: a few actions as values, and nothing if all is as it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.deploy.admission import vet
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.patch import Operation, Operations, differences, is_legacy
from schedkit.model.deploy.render import render


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


DaemonSetWrite: TypeAlias = CreateDaemonSet | PatchDaemonSet | DeleteDaemonSet


def is_being_deleted(observation: Observation) -> bool:
    """Owner references remove what is left of it."""
    return observation.schedext.metadata.deletion_timestamp is not None


def changes_pods(write: DaemonSetWrite) -> bool:
    """Whether the DaemonSet's controller will have something to do; labels are not its business."""
    match write:
        case PatchDaemonSet(operations=operations):
            return any(operation.path.startswith("/spec/") for operation in operations)
        case CreateDaemonSet() | DeleteDaemonSet():
            return True


def plan_daemon_set(observation: Observation) -> tuple[DaemonSetWrite, ...]:
    """At most one write of the DaemonSet; none of one that is not ours."""
    if is_being_deleted(observation):
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
