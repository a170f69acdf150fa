"""Pods and events about them, as the API server serves them."""

from __future__ import annotations

from datetime import datetime

from schedkit.model.api.daemonset import OwnedMeta, SecurityContext
from schedkit.model.api.schedext import ObjectMeta
from schedkit.model.api.schema import ApiType


class PodContainer(ApiType, frozen=True):
    """A container as its pod was admitted: policies may have changed it."""

    name: str = ""
    image: str = ""
    security_context: SecurityContext | None = None


class PodSpec(ApiType, frozen=True):
    """Where a pod runs, and with what powers."""

    node_name: str = ""
    containers: tuple[PodContainer, ...] = ()


class Waiting(ApiType, frozen=True):
    """A container that waits for its first or its next start."""

    reason: str = ""
    message: str = ""


class Running(ApiType, frozen=True):
    """A container that runs."""

    started_at: datetime | None = None


class Terminated(ApiType, frozen=True):
    """A container that has ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(ApiType, frozen=True):
    """Exactly one of these states is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(ApiType, frozen=True):
    """What the kubelet says about a container."""

    name: str = ""
    image_id: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(ApiType, frozen=True):
    """One question about a pod, with its answer."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(ApiType, frozen=True):
    """What the kubelet and the scheduler say about a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(ApiType, frozen=True):
    """A pod of a DaemonSet."""

    metadata: OwnedMeta = OwnedMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of that type; None: it is not set."""
        for each in self.status.conditions:
            if each.type == kind:
                return each
        return None


class EventSubject(ApiType, frozen=True):
    """What an event is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Event(ApiType, frozen=True):
    """A message that a controller published."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: EventSubject = EventSubject()
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def seen_at(self) -> datetime | None:
        """When it last happened; None: the event does not say."""
        return self.last_timestamp or self.event_time
