"""What is seen of the cluster before anything is decided: a few fields of its objects, and one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from schedkit.model.api.daemonset import DaemonSet, OwnedMeta, SecurityContext
from schedkit.model.api.schedext import ObjectMeta, SchedExt
from schedkit.model.api.schema import ApiType, Unique
from schedkit.model.deploy.verdicts import Trusted, Verdict
from schedkit.model.trust.rules import Rules


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
    """A container that does not run yet, or not again yet."""

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
    """One of the three."""

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
        """The answer to that question; None: nobody has answered it."""
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
    """Something that a controller wanted to be known."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: EventSubject = EventSubject()
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def seen_at(self) -> datetime | None:
        """When it happened last; None: its writer did not say."""
        return self.last_timestamp or self.event_time


class Taint(ApiType, frozen=True):
    """What keeps pods away from a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeMeta(ApiType, frozen=True):
    """What identifies a node, and what it is chosen by."""

    name: str = ""  # each of its pods says it too
    namespace: str = ""  # always empty
    uid: Unique = ""
    resource_version: Unique = ""
    labels: dict[str, str] = {}


class NodeSpec(ApiType, frozen=True):
    """Who may run on a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class Node(ApiType, frozen=True):
    """A machine of the cluster, as far as it matters to whom it is given."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()


@dataclass(frozen=True, slots=True)
class Observation:
    """All evidence about one SchedExt at one moment."""

    schedext: SchedExt
    now: datetime
    daemon_set: DaemonSet | None = None  # of the SchedExt's name, whoever it belongs to; None: there is none
    pods: tuple[Pod, ...] = ()  # of that DaemonSet, with those that are to end and may take their time
    events: tuple[Event, ...] = ()
    rival: SchedExt | None = None  # the oldest that may want the same nodes; None: nobody does
    refusal: str | None = None  # what the API server said to the last write of the DaemonSet; None: accepted
    # None: they cannot be read, and there are none from before
    rules: Rules | None = field(default_factory=Rules)
    complaint: str = ""  # why the administrator's rules cannot be read; empty: they can
    verdict: Verdict | None = None  # about the image; None: there is none yet
    vouched: tuple[Trusted, ...] = ()  # good verdicts by this policy about what it named before, too

    @property
    def is_ours(self) -> bool:
        """Whether the DaemonSet is controlled by this very SchedExt."""
        owner = self.daemon_set.metadata.controller if self.daemon_set else None
        return owner is not None and owner.uid == self.schedext.metadata.uid

    @property
    def own_pods(self) -> tuple[Pod, ...]:
        """The pods of our DaemonSet that nobody is deleting."""
        if self.daemon_set is None or not self.is_ours:
            return ()
        uid = self.daemon_set.metadata.uid
        return tuple(
            pod
            for pod in self.pods
            if pod.metadata.deletion_timestamp is None
            and (owner := pod.metadata.controller) is not None
            and owner.uid == uid
        )
