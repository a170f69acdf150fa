"""Pods and events about them, as the API server serves them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from schedkit.model.api.daemonset import OwnedMeta, SecurityContext
from schedkit.model.api.schedext import ObjectMeta
from schedkit.model.api.schema import ApiType, Unique


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
    start_time: datetime | None = None  # by the node's clock, before any of its containers was made
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PodLabels(ApiType, frozen=True):
    """The labels of a pod that are read: thousands of pods share their values."""

    template: str = msgspec.field(default="", name="pod-template-generation")  # a number that only grows
    # the template itself: one that comes back after another has its old one
    revision: str = msgspec.field(default="", name="controller-revision-hash")


class PodMeta(OwnedMeta, frozen=True):
    """Identity, owners and template of a pod."""

    labels: PodLabels = PodLabels()


class Pod(ApiType, frozen=True):
    """A pod of a DaemonSet."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of that type; None: it is not set."""
        for each in self.status.conditions:
            if each.type == kind:
                return each
        return None


class AgentMeta(ApiType, frozen=True):
    """Identity of an agent's pod."""

    name: Unique = ""
    namespace: str = ""
    resource_version: Unique = ""


class AgentSpec(ApiType, frozen=True):
    """Where an agent runs."""

    node_name: str = ""


class AgentCondition(ApiType, frozen=True):
    """One question about an agent's pod, with its answer.

    Its dates are by the node's clock, which the manager never compares with its own.
    """

    type: str = ""
    status: str = ""


class AgentStatus(ApiType, frozen=True):
    """How an agent is doing."""

    conditions: tuple[AgentCondition, ...] = ()


class AgentPod(ApiType, frozen=True):
    """The pod of a node's agent: where it runs, and whether it is ready."""

    metadata: AgentMeta = AgentMeta()
    spec: AgentSpec = AgentSpec()
    status: AgentStatus = AgentStatus()

    @property
    def is_ready(self) -> bool:
        """Whether its last look is young, and nothing it saw is unsent."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


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
