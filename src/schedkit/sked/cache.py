"""Everything that is known of the cluster, and the evidence about one SchedExt taken from it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schedkit.kube.client import Client, Selection
from schedkit.kube.informer import Informer
from schedkit.kube.resources import Key, key_of
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.nodes import Node
from schedkit.model.api.pods import AgentPod, Event, Pod
from schedkit.model.api.reports import ReportStatus
from schedkit.model.api.schedext import SchedExt
from schedkit.model.api.schedextnode import NodeOwnerKind
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import MANAGED_BY, MANAGER
from schedkit.model.deploy.rivals import Rivals
from schedkit.model.report.believed_reports import REPORT_LASTS, silence_reason
from schedkit.model.report.fleet import last_refusal
from schedkit.model.report.pod_checks import running_since
from schedkit.model.report.sights import Sight, boot_of_another_report, is_attached, is_enabled
from schedkit.sked.kinds import AGENT_PODS, DAEMON_SETS, EVENTS, NODES, PODS, REPORTS, SCHEDEXTS
from schedkit.sked.since import Since, Wait

AGENTS_NAMESPACE, AGENTS_NAME = "sked-node", "sked-node-agent"
_OURS = Selection(labels=f"{MANAGED_BY}={MANAGER}")
_AGENTS = Selection(namespace=AGENTS_NAMESPACE, labels="app.kubernetes.io/component=node-agent")
_REFUSED_PODS = Selection(fields="involvedObject.kind=DaemonSet,reason=FailedCreate")


@dataclass(frozen=True, slots=True)
class _Sighting:
    daemon_set: DaemonSet
    at: float


class Cluster:
    """The stores of all kinds, kept current by their informers."""

    def __init__(self, client: Client) -> None:
        self.schedexts = Informer(client, SCHEDEXTS)
        self.daemon_sets = Informer(client, DAEMON_SETS, _OURS)
        self.pods = Informer(client, PODS, _OURS, indexes={"owner": _owner, "node": _node})
        self.nodes = Informer(client, NODES)
        self.refused_pods = Informer(
            client, EVENTS, _REFUSED_PODS, indexes={"subject": _subject, "agents": _about_agents}
        )
        # who installs no agents need not have the kind of their reports
        self.reports = Informer(client, REPORTS, is_optional=True)
        self.agents = Informer(client, AGENT_PODS, _AGENTS, indexes={"node": _node})
        self.rivals: Rivals[Key] = Rivals()
        # what answers to requests showed before the watch does, or what it never shows: others' DaemonSets
        self._sightings: dict[Key, _Sighting] = {}
        self._since = Since()
        self.daemon_sets.listen(self._outdate_sighting)
        self.nodes.listen(self._node_changed)
        self.agents.listen(self._agent_changed)
        self.pods.listen(self._pod_changed)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All of them, in the order in which they are worth waiting for."""
        return (
            self.schedexts,
            self.daemon_sets,
            self.pods,
            self.refused_pods,
            self.nodes,
            self.reports,
            self.agents,
        )

    def observe(self, key: Key, now: dt.datetime, refusal: str | None) -> Observation | None:
        """All evidence about that SchedExt; None if there is none such."""
        schedext = self.schedexts.store.get(key)
        if schedext is None:
            return None
        daemon_set = self.daemon_set(key)
        uid = daemon_set.metadata.uid if daemon_set else ""
        return Observation(
            schedext=schedext,
            now=now,
            daemon_set=daemon_set,
            pods=tuple(self.pods.store.by("owner", uid)) if uid else (),
            events=tuple(self.refused_pods.store.by("subject", uid)) if uid else (),
            rival=self._rival(key),
            refusal=refusal,
            has_agents=self._has_agents,
            agent_refusal=self._agent_refusal(now),
        )

    def _rival(self, key: Key) -> SchedExt | None:
        rival = self.rivals.first(key)
        return self.schedexts.store.get(rival) if rival else None

    # Nodes, their agents and their reports

    @property
    def _has_agents(self) -> bool:
        return bool(self.agents.store or self.reports.store or self.reports.misfits)

    def _agent_refusal(self, now: dt.datetime) -> str:
        refused = last_refusal(self.refused_pods.store.by("agents", AGENTS_NAME), now)
        return refused.message.removeprefix("Error creating: ") if refused else ""

    def look(self, pod: Pod, now: dt.datetime, told: frozenset[str] = frozenset()) -> Sight:
        """What is seen of the pod's node beside the pod; `told`: the troubles in the status that is there."""
        node = pod.spec.node_name
        found, agents = self.reports.store.get(Key(None, node)), self.agents.store.by("node", node)
        report, since = found.status if found else None, self._since
        owner = self._owner(report, node)
        silent_since, is_unheard = self._silence(node, agents, now)
        if is_unheard and silence_reason(has_agent=bool(agents)).value in told:
            # this is remembered: the next status may say something else of the node, and not that
            self._since.see(Wait.AGENT, node, value=True, now=now - REPORT_LASTS)
        run = None if is_attached(report, pod) else running_since(pod)
        of_node = self.nodes.store.get(Key(None, node))
        rebooted = boot_of_another_report(of_node, report)
        return Sight(
            node=of_node,
            report=report,
            misfit=self.reports.misfits.get(Key(None, node), ""),
            has_agent=bool(agents),
            silent_since=silent_since,
            is_unheard=is_unheard,
            joined_at=since.known(Wait.JOINING, node),
            rebooted_at=since.see(Wait.REBOOT, node, rebooted, now),
            unattached_since=since.see(Wait.ATTACHMENT, pod.metadata.uid, run, now),
            has_neighbour=self._has_neighbour(pod),
            owner=owner,
            stranger_since=since.see(Wait.STRANGER, node, _stranger(report, owner), now),
        )

    def _silence(
        self, node: str, agents: Iterable[AgentPod], now: dt.datetime
    ) -> tuple[dt.datetime | None, bool]:
        """Since when no agent is ready on the node, and whether none has been since this process looks."""
        is_silent = bool(node) and not any(each.is_ready for each in agents)
        fell_silent = self._since.known(Wait.AGENT, node) if is_silent else None
        has_no_word = is_silent and fell_silent is None
        unheard_since = self._since.see(Wait.FIRST_WORD, node, has_no_word or None, now)
        # what was said before is about nodes of before: of one that joined since, everything is known
        is_unheard = has_no_word and self._since.known(Wait.JOINING, node) is None
        return fell_silent or unheard_since, is_unheard

    def _owner(self, report: ReportStatus | None, node: str) -> Pod | None:
        """The pod of ours that the report names; None: it names none."""
        uid = report.owner.pod_uid if report else ""
        pods = self.pods.store.by("node", node) if uid else ()
        return next((each for each in pods if each.metadata.uid == uid), None)

    def _has_neighbour(self, pod: Pod) -> bool:
        """Whether a pod of another DaemonSet of ours is on its node."""
        node = pod.spec.node_name
        return bool(node) and any(
            each.metadata.controller != pod.metadata.controller for each in self.pods.store.by("node", node)
        )

    def schedexts_on(self, node: str) -> set[Key]:
        """Those that have a pod on the node: its DaemonSet has the SchedExt's name."""
        owned = (
            (pod.metadata.namespace, pod.metadata.controller) for pod in self.pods.store.by("node", node)
        )
        return {Key(namespace, owner.name) for namespace, owner in owned if owner}

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node that was there before the manager is none that joins; one made anew is."""
        is_another = new is None or (old is not None and old.metadata.uid != new.metadata.uid)
        if old is not None and is_another:
            self._since.forget(old.metadata.name)
        if new is not None and (old is None or is_another) and self.nodes.synced:
            self._since.see(Wait.JOINING, new.metadata.name, value=True, now=_now())

    def _agent_changed(self, old: AgentPod | None, new: AgentPod | None) -> None:
        """An agent that was ready in between ends the wait, also when nobody looks."""
        if new is not None and new.is_ready:
            self._since.see(Wait.AGENT, new.spec.node_name, None, _now())
        elif old is not None and old.is_ready:
            self._since.see(Wait.AGENT, old.spec.node_name, value=True, now=_now())

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._since.forget(old.metadata.uid)

    # DaemonSets, as the watch or a later answer showed them

    def daemon_set(self, key: Key) -> DaemonSet | None:
        """The one of that name, whoever it belongs to."""
        stored, seen = self.daemon_sets.store.get(key), self._sightings.get(key)
        return seen.daemon_set if seen else stored

    def sighted_s_ago(self, key: Key) -> float | None:
        """How long ago an answer showed what the watch has not shown yet; None: the watch is ahead."""
        seen = self._sightings.get(key)
        return time.monotonic() - seen.at if seen else None

    def sight(self, key: Key, found: DaemonSet | None) -> None:
        """Take in what an answer showed; None: that there is none of that name."""
        stored = self.daemon_sets.store.get(key)
        if found is None or (stored is not None and not _is_older(stored, found)):
            self._sightings.pop(key, None)
        else:
            self._sightings[key] = _Sighting(found, time.monotonic())

    def _outdate_sighting(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        changed = new or old
        if changed is None:
            return
        key = key_of(changed)
        seen = self._sightings.get(key)
        if seen is None:
            return
        is_gone = new is None and seen.daemon_set.metadata.uid == changed.metadata.uid
        if is_gone or (new is not None and not _is_older(new, seen.daemon_set)):
            del self._sightings[key]


def _is_older(one: DaemonSet, other: DaemonSet) -> bool:
    """Whether the server wrote the first before the second; its versions are numbers that only grow."""
    first, second = one.metadata.resource_version, other.metadata.resource_version
    return first.isdecimal() and second.isdecimal() and int(first) < int(second)


def _owner(pod: Pod) -> Iterable[str]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner else ()


def _stranger(report: ReportStatus | None, owner: Pod | None) -> str | None:
    """The uid of a pod that owns what the kernel runs and is not known; None: there is none such."""
    is_strange = report is not None and is_enabled(report) and report.owner.kind is NodeOwnerKind.POD
    return report.owner.pod_uid if report and is_strange and owner is None else None


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _node(pod: Pod | AgentPod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _about_agents(event: Event) -> Iterable[str]:
    place = (event.metadata.namespace, event.involved_object.name)
    return (AGENTS_NAME,) if place == (AGENTS_NAMESPACE, AGENTS_NAME) else ()


def _subject(event: Event) -> Iterable[str]:
    return (event.involved_object.uid,)
