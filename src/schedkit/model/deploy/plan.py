"""What to do about a SchedExt: one decision, from which the write, the status and the events all follow.

A write is a value, and there is none if all is as it should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

import msgspec

from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.deploy.admission import Vetted, case_of, question_about, vet
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.patch import Operation, Operations, differences, is_legacy
from schedkit.model.deploy.render import render
from schedkit.model.deploy.stops import rests
from schedkit.model.deploy.unknown_needs import is_left_alone, unknown_needs
from schedkit.model.deploy.verdicts import Question


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


class WriteFailure(Enum):
    """What can keep a DaemonSet from being written."""

    OUTDATED = auto()  # somebody was faster: what was seen is not there any more
    REFUSED = auto()  # the API server, or a webhook it asks, said no
    ENDING = auto()  # its namespace is being deleted
    BROKEN = auto()  # the API server said that something in it broke
    UNHEARD = auto()  # the API server did not answer, or spoke of itself; or nothing was sent


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """A write of the DaemonSet that failed, and what the API server said to it."""

    failure: WriteFailure
    words: str


def refusal_of(write: FailedWrite, *, again: bool) -> str | None:
    """What the API server has against the DaemonSet; None: that is not why the write failed.

    A webhook that does not answer makes the server break; so does a moment without etcd, which is over when
    the server is asked `again`.
    """
    is_broken_for_good = write.failure is WriteFailure.BROKEN and again
    return write.words if is_broken_for_good or write.failure is WriteFailure.REFUSED else None


@dataclass(frozen=True, slots=True)
class Decision:
    """What one observation leads to. It is made once and handed on, so that no two parts can disagree."""

    vetted: Vetted
    question: Question | None  # what the verifier has to find out, or to look at again; None: nothing
    write: DaemonSetWrite | None  # None: the DaemonSet stays as it is, and where there is none, none is made
    is_legacy: bool  # the pods are those of the Go sked, and do what the spec asks for
    unknown_needs: tuple[str, ...] = ()  # why everything is left alone; empty: nothing is

    @property
    def changes_pods(self) -> bool:
        """Whether the DaemonSet's controller will have something to do; labels are not its business."""
        match self.write:
            case PatchDaemonSet(operations=operations):
                return any(operation.path.startswith("/spec/") for operation in operations)
            case CreateDaemonSet() | DeleteDaemonSet():
                return True
            case None:
                return False


def decide(observation: Observation) -> Decision:
    """May it run, under which name of its image, and what to write for that."""
    case = case_of(observation)
    as_it_is = _draft(observation, case.present) if case.present is not None else None
    vetted = vet(case, changes_pods=as_it_is is None or as_it_is.changes_pods)
    # another draft is made only where a change comes with another name of the image
    draft = as_it_is if as_it_is and as_it_is.image == vetted.image else _draft(observation, vetted.image)
    write = None if is_left_alone(observation) else _write(observation, vetted, draft)
    return Decision(vetted, question_about(case), write, draft.is_legacy, unknown_needs(observation))


def is_being_deleted(observation: Observation) -> bool:
    """Owner references remove what is left of it."""
    return observation.schedext.metadata.deletion_timestamp is not None


@dataclass(frozen=True, slots=True)
class _Draft:
    """The DaemonSet with its image by that name, and what it takes to make the one that is there like it."""

    image: str
    body: DaemonSet
    operations: Operations  # empty also where there is none of ours
    is_legacy: bool

    @property
    def changes_pods(self) -> bool:
        return any(operation.path.startswith("/spec/template/") for operation in self.operations)


def _draft(observation: Observation, image: str) -> _Draft:
    schedext, observed = observation.schedext, observation.daemon_set
    body = render(schedext, image)
    if observed is None or not observation.is_ours:
        return _Draft(image, body, (), is_legacy=False)
    keeps_pods = is_legacy(observed, schedext)
    if keeps_pods:  # an upgrade restarts nothing
        spec = msgspec.structs.replace(body.spec, template=observed.spec.template)
        body = msgspec.structs.replace(body, spec=spec)
    return _Draft(image, body, differences(observed, body), keeps_pods)


def _write(observation: Observation, vetted: Vetted, draft: _Draft) -> DaemonSetWrite | None:
    """At most one write of the DaemonSet; none of one that is not ours."""
    observed, is_at_rest = observation.daemon_set, rests(observation.schedext)
    if is_being_deleted(observation):
        return None
    if observed is None:
        is_held = is_at_rest or vetted.obstacle is not None
        return None if is_held else CreateDaemonSet(draft.body)
    if not observation.is_ours or observed.metadata.deletion_timestamp is not None:
        return None
    meta = observed.metadata
    if is_at_rest:
        return DeleteDaemonSet(meta.name, meta.uid)
    if vetted.obstacle is not None:
        return None
    operations = draft.operations
    return PatchDaemonSet(meta.name, meta.resource_version, operations) if operations else None
