"""Every node that should run a scheduler, each with its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from schedkit.model.api.conditions import Reason
from schedkit.model.api.daemonset import DaemonSet, SecurityContext
from schedkit.model.api.pods import Event, Pod, PodLabels
from schedkit.model.api.schedext import SchedExtStatus
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import SECURITY
from schedkit.model.deploy.stops import rests
from schedkit.model.deploy.unknown_needs import is_left_alone
from schedkit.model.report.believed_reports import silence_reason
from schedkit.model.report.kernel_checks import ProvedState
from schedkit.model.report.kernel_table import proved_state, without_a_pod
from schedkit.model.report.pod_checks import Bucket, NodeState, node_state, shortened
from schedkit.model.report.sights import Sight

# the DaemonSet controller tries again at least that often; an older event says nothing about now
_REFUSAL_LASTS = timedelta(minutes=20)
_SEVERITY = {reason: rank for rank, reason in enumerate(Reason)}
_HEALTHY = frozenset({Reason.PODS_SETTLED, Reason.SETTLING})


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes of one SchedExt. Their buckets add up, because each node is in one."""

    nodes: tuple[NodeState, ...] = ()  # by what their pods say
    kernels: tuple[ProvedState, ...] = ()  # the same nodes, by what is proved; empty: no node reports
    outdated: int = 0  # nodes whose pod is of an older template
    is_current: bool = True  # False: the DaemonSet's controller has not seen the last change yet

    @property
    def troubled(self) -> list[NodeState]:
        """Nodes that are not well, the worst first."""
        ill = [node for node in self.nodes if node.reason not in _HEALTHY]
        return sorted(ill, key=lambda node: (_SEVERITY[node.reason], node.node))

    @property
    def counted(self) -> tuple[NodeState, ...] | tuple[ProvedState, ...]:
        """The nodes by the best that is known about each."""
        return self.kernels or self.nodes

    @property
    def worst(self) -> list[NodeState] | list[ProvedState]:
        """Nodes that need attention by the best that is known, the worst first."""
        return by_severity(self.unattached) if self.kernels else self.troubled

    @property
    def unattached(self) -> list[ProvedState]:
        """Nodes whose kernel is not proved to run the scheduler."""
        return [each for each in self.kernels if each.bucket is not Bucket.ATTACHED]

    @property
    def outdated_kernels(self) -> list[ProvedState]:
        """Nodes that count, and whose kernel runs the scheduler of a pod of an older template, by name."""
        attached = (each for each in self.kernels if each.bucket is Bucket.ATTACHED)
        older = (each for each in attached if not each.is_updated and not each.is_excused)
        return sorted(older, key=lambda each: each.node)

    @property
    def image(self) -> str:
        """What runs on most nodes; of equally many the first by name, so that it does not flap."""
        images = Counter(node.image for node in self.nodes if node.image)
        return min(images, key=lambda image: (-images[image], image), default="")

    def next_change(self, now: datetime) -> datetime | None:
        """When it looks different by waiting alone; None: only when something happens."""
        moments = (*(node.settles_at for node in self.nodes), *(each.changes_at for each in self.kernels))
        return min((moment for moment in moments if moment is not None and moment > now), default=None)


def by_severity(nodes: Iterable[ProvedState]) -> list[ProvedState]:
    """The worst first, and of equally bad ones by name."""
    return sorted(nodes, key=lambda node: (_SEVERITY[node.reason], node.node))


@dataclass(frozen=True, slots=True)
class Survey:
    """Which pods speak for the nodes of one SchedExt, and what they are judged by."""

    observation: Observation
    pods: tuple[Pod, ...] = ()  # the newest of each node
    wanted: SecurityContext | None = None  # as in `PodFacts`
    desired: int = 0  # nodes that the DaemonSet's controller wants a pod on
    outdated: int = 0  # as in `Fleet`
    is_current: bool = True  # as in `Fleet`
    revision: str | None = None  # of the pods of the current template; None: there are none, or all are
    told: frozenset[str] = frozenset()  # the reasons of troubles in the status that is there

    def state_of(self, pod: Pod) -> NodeState:
        """The state of the pod's node."""
        return node_state(pod, self.wanted, self.observation.now)

    def kernel_of(self, pod: Pod, said: NodeState, sight: Sight) -> ProvedState:
        """The state of the kernel of the pod's node."""
        found = proved_state(pod, said, self._as_told_before(sight), self.observation.now)
        is_updated = found.bucket is Bucket.ATTACHED and self._is_updated(pod)
        return msgspec.structs.replace(found, is_updated=True) if is_updated else found

    def _as_told_before(self, sight: Sight) -> Sight:
        """A manager that begins anew does not take back what the one before said about silent agents."""
        if not sight.is_unheard:
            return sight
        reason = silence_reason(has_agent=sight.has_agent)
        return msgspec.structs.replace(sight, is_told_silent=reason.value in self.told)

    def _is_updated(self, pod: Pod) -> bool:
        """Whether it is of the current template: all are, or those of that revision."""
        is_of_it = self.revision is not None and pod.metadata.labels.revision == self.revision
        return self.is_current and (not self.outdated or is_of_it)

    def fleet(self, states: Sequence[NodeState], kernels: Sequence[ProvedState] = ()) -> Fleet:
        """All nodes, from the states of all pods: those that should have a pod, and those that have one."""
        absent = max(0, self.desired - len(states))
        missing = [_without_a_pod(self.observation)] * absent if absent else []
        proved = (*kernels, *map(without_a_pod, missing)) if self.observation.has_agents else ()
        return Fleet((*states, *missing), proved, self.outdated, self.is_current)


def survey(observation: Observation, *, is_changing: bool) -> Survey:
    """`is_changing`: the DaemonSet is about to be written, so what is seen of it is out of date."""
    daemon_set, left_alone = observation.daemon_set, is_left_alone(observation)
    is_at_rest = rests(observation.schedext) and not left_alone
    if daemon_set is None or not observation.is_ours or is_at_rest:
        return Survey(observation, is_current=not is_changing)
    seen = daemon_set.status
    is_current = (
        not is_changing
        and daemon_set.metadata.deletion_timestamp is None
        and daemon_set.is_seen_by_its_controller
    )
    outdated = max(0, seen.desired_number_scheduled - seen.updated_number_scheduled) if is_current else 0
    is_known = is_current and not outdated and not left_alone
    wanted = SECURITY[observation.schedext.spec.security_profile] if is_known else None
    pods = _newest_per_node(observation.own_pods)
    revision = _current_revision(pods, daemon_set) if outdated else None
    told = frozenset(each.reason for each in (observation.schedext.status or SchedExtStatus()).troubles)
    desired = seen.desired_number_scheduled
    return Survey(observation, pods, wanted, desired, outdated, is_current, revision, told)


def _current_revision(pods: Sequence[Pod], daemon_set: DaemonSet) -> str | None:
    """The revision of the pods that the DaemonSet's controller calls updated; None: there are none.

    It numbers templates, but one that comes back has pods of an older number that are as good as new. As
    long as no pod has the current number, the revision with as many pods as are updated counts; it is not
    that of the template just before, from which the current one differs.
    """
    updated = daemon_set.status.updated_number_scheduled
    number, labels = daemon_set.metadata.annotations.template, [pod.metadata.labels for pod in pods]
    made = [each for each in labels if each.template == number]
    before = {each.revision for each in labels if number.isdecimal() and _number(each) == int(number) - 1}
    sizes = Counter(each.revision for each in labels)
    back = [each for each in labels if sizes[each.revision] == updated and each.revision not in before]
    newest = max(made or back or labels, key=_number, default=None)
    return newest.revision if newest and updated else None


def _number(labels: PodLabels) -> int:
    return int(labels.template) if labels.template.isdecimal() else 0


def _newest_per_node(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """A node has one pod; for a moment it may have two."""
    placed: dict[str, Pod] = {}
    for pod in pods:
        place = pod.spec.node_name or f"not placed: {pod.metadata.name}"
        other = placed.setdefault(place, pod)
        if other is not pod and _age(other) < _age(pod):
            placed[place] = pod
    return tuple(placed.values())


def _age(pod: Pod) -> tuple[str, str]:
    return str(pod.metadata.creation_timestamp), pod.metadata.name


def _without_a_pod(observation: Observation) -> NodeState:
    refused = _last_refusal(observation)
    if refused is None:
        return NodeState("", Bucket.STARTING, Reason.POD_STARTING, "the pod is about to be created")
    words = shortened(refused.message.removeprefix("Error creating: "))
    return NodeState("", Bucket.FAILED, Reason.PODS_REFUSED, f"pods cannot be created: {words}")


def _last_refusal(observation: Observation) -> Event | None:
    """The newest event that says why pods of the DaemonSet are not created."""
    uid = observation.daemon_set.metadata.uid if observation.daemon_set else ""
    return last_refusal(
        (each for each in observation.events if each.involved_object.uid == uid), observation.now
    )


def last_refusal(events: Iterable[Event], now: datetime) -> Event | None:
    """The newest of the events that says why pods are not created; None: none does, or not lately."""

    def seen_at(event: Event) -> datetime:
        return event.seen_at or now

    refusals = (
        event for event in events if event.reason == "FailedCreate" and seen_at(event) >= now - _REFUSAL_LASTS
    )
    return max(refusals, key=seen_at, default=None)
