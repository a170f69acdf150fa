"""Brings one SchedExt in line: observe, decide (in `model`), act, report.

DaemonSets go first. Status is written from a queue of its own, at most once a second per SchedExt: it costs
the API server more than the DaemonSet did.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import assert_never

import structlog

from schedkit.kube.client import Client
from schedkit.kube.controller import DONE, Controller, Observer, Result
from schedkit.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KubeError,
    NotFoundError,
    UnavailableError,
)
from schedkit.kube.events import Occurrence, Recorder, Reference
from schedkit.kube.queue import KeyedQueue
from schedkit.kube.resources import Key, key_of
from schedkit.model.api.conditions import Reason, legible
from schedkit.model.api.daemonset import DaemonSet, OwnedMeta
from schedkit.model.api.nodes import Node
from schedkit.model.api.pods import AgentPod, Event, Pod
from schedkit.model.api.reports import Report
from schedkit.model.api.schedext import SchedExt
from schedkit.model.api.schedextnode import NodeExit
from schedkit.model.deploy.observation import Observation, asks_the_same, is_written_the_same
from schedkit.model.deploy.plan import (
    CreateDaemonSet,
    DeleteDaemonSet,
    FailedWrite,
    PatchDaemonSet,
    WriteFailure,
    decide,
    refusal_of,
)
from schedkit.model.report.fleet import Fleet, Survey, survey
from schedkit.model.report.kernel_checks import ProvedState, words_of_eject
from schedkit.model.report.plan import Action, RecordEvent, WriteStatus, plan_report
from schedkit.model.report.pod_checks import NodeState
from schedkit.model.report.sights import Sight, first_ejects, has_new_eject, tells_the_same
from schedkit.sked.cache import AGENTS_NAME, AGENTS_NAMESPACE, Cluster
from schedkit.sked.kinds import DAEMON_SETS, NODES, SCHEDEXTS
from schedkit.sked.trust.verifications import Verifications

_log = structlog.get_logger()

DEPLOYING, REPORTING = 16, 8  # workers
# a DaemonSet that was just written has a status a moment later: one write of ours instead of two
_DAEMON_SET_SETTLES_S = 1.0
_STATUS_SPACING_S = 1.0
# how long a status waits, at most, while DaemonSets wait for the API server
YIELDS_S = 10.0
# what no watch shows is looked at that often
LOOK_AGAIN_S = 10.0
_PODS_AT_ONCE = 250  # are judged without a pause: some ten milliseconds


class Reconciler:
    """The controllers of SchedExts, and what they need to know."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        recorder: Recorder,
        verifications: Verifications,
        *,
        observe: Observer | None = None,
    ) -> None:
        self._cluster, self._client, self._recorder = cluster, client, recorder
        self._verifications = verifications
        self._refusals: dict[Key, str] = {}  # what the API server said to the last write, if it refused it
        # whose DaemonSet this process has written, or failed to: what keeps one from being written is not
        # known before, and a status without it would be taken back a moment later
        self._tried: set[Key] = set()
        self._yielding: dict[Key, float] = {}  # whose status waits for DaemonSets, and until when
        self._hurried: set[Key] = set()  # whose status waits for nobody: a kernel ejected a scheduler
        self.deploying: Controller[Key] = Controller(
            "daemonsets", self.deploy, workers=DEPLOYING, observe=observe
        )
        self.reporting: Controller[Key] = Controller(
            "status",
            self.report,
            queue=KeyedQueue(spacing_s=_STATUS_SPACING_S),
            workers=REPORTING,
            observe=observe,
        )
        self._subscribe()

    @property
    def controllers(self) -> tuple[Controller[Key], ...]:
        """All that work on SchedExts, the more urgent first."""
        return (self.deploying, self.reporting, self._verifications.controller)

    # Observe

    def _subscribe(self) -> None:
        cluster = self._cluster
        cluster.schedexts.listen(self._schedext_changed)
        cluster.daemon_sets.listen(self._daemon_set_changed)
        cluster.pods.subscribe(self._wake_reporting, _schedext_of_pod)
        cluster.refused_pods.subscribe(self._pods_refused, _schedext_of_event)
        cluster.reports.listen(self._report_changed)
        cluster.agents.listen(self._agent_changed)
        cluster.nodes.listen(self._node_changed)
        self._verifications.listen(self.deploying.queue.add)

    def decide_anew(self) -> None:
        """About all of them: the rules are others."""
        for schedext in self._cluster.schedexts.store:
            self.deploying.queue.add(key_of(schedext))

    def _schedext_changed(self, old: SchedExt | None, new: SchedExt | None) -> None:
        changed = new or old
        if changed is None:
            return
        key = key_of(changed)
        for other in self._cluster.rivals.update(key, new):
            self._wake_reporting(other, at_once=True)
        if old is None or new is None or not asks_the_same(old, new):
            self.deploying.queue.add(key)
        else:
            self._wake_reporting(key)

    def _daemon_set_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        changed = new or old
        if changed is None or (key := key_of(changed)) not in self._cluster.schedexts.store:
            return
        if old is None or new is None or not is_written_the_same(old, new):
            self.deploying.queue.add(key)
        else:
            self._wake_reporting(key)

    def _pods_refused(self, key: Key) -> None:
        """Of a SchedExt, or of the agents: then everybody lacks them."""
        about_agents = key == Key(AGENTS_NAMESPACE, AGENTS_NAME)
        for each in self._cluster.schedexts.store.keys() if about_agents else (key,):
            self._wake_reporting(each)

    def _report_changed(self, old: Report | None, new: Report | None) -> None:
        """An eject is told at once."""
        changed = new or old
        if changed is None:
            return
        keys = self._cluster.schedexts_on(changed.metadata.name)
        for key in keys:
            if has_new_eject(old, new):
                self._hurry_reporting(key)
            else:
                self._wake_reporting(key)
        if keys & self._tried:
            self._tell_of_ejects(old, new)

    def _tell_of_ejects(self, old: Report | None, new: Report | None) -> None:
        """On the Node, once for each burst, for `kubectl describe node`."""
        node = self._cluster.nodes.store.get(key_of(new)) if new else None
        if node is not None:
            for each in first_ejects(old, new):
                self._recorder.record(_eject(node, each))

    def _agent_changed(self, old: AgentPod | None, new: AgentPod | None) -> None:
        if old is not None and new is not None and old.is_ready == new.is_ready:
            return
        for node in {each.spec.node_name for each in (old, new) if each is not None}:
            self._wake_all_on(node)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        changed = new or old
        if changed is not None and not tells_the_same(old, new):
            self._wake_all_on(changed.metadata.name)

    def _wake_all_on(self, node: str) -> None:
        for key in self._cluster.schedexts_on(node):
            self._wake_reporting(key)

    def _hurry_reporting(self, key: Key) -> None:
        """Report now, whatever the spacing, and whoever waits for a DaemonSet."""
        if key in self._tried and key in self._cluster.schedexts.store:
            self._hurried.add(key)
            self.reporting.queue.add(key, urgent=True)

    def _wake_reporting(self, key: Key, *, at_once: bool = False) -> None:
        """Report soon; a moment later while the DaemonSet's controller has yet to have its say."""
        if key in self._tried and key in self._cluster.schedexts.store:
            daemon_set = self._cluster.daemon_set(key)
            is_seen = at_once or daemon_set is None or daemon_set.is_seen_by_its_controller
            self.reporting.queue.add(key, after_s=0 if is_seen else _DAEMON_SET_SETTLES_S)

    def _observe(self, key: Key) -> Observation | None:
        seen = self._cluster.observe(key, dt.datetime.now(dt.UTC), self._refusals.get(key))
        return self._verifications.look(key, seen) if seen else None

    # Decide and act

    async def deploy(self, key: Key) -> Result:
        """Make the DaemonSet what the spec asks for."""
        await self._look_again(key)
        observation = self._observe(key)
        if observation is None:
            self._forget(key)
            return DONE
        decision = decide(observation)
        self._verifications.ask(key, decision.question)
        try:
            if decision.write is not None:
                await self.perform(key, observation, decision.write)
        except KubeError as error:
            self._note_failure(key, error)
            raise
        self._refusals.pop(key, None)
        self._tried.add(key)
        self._wake_reporting(key)
        return DONE if self._cluster.sighted_s_ago(key) is None else Result(LOOK_AGAIN_S)

    def _note_failure(self, key: Key, error: KubeError) -> None:
        """Whatever happened, the user is told how things are; a first failure may yet turn out to be none."""
        again = self.deploying.queue.failures(key) > 0
        refusal = refusal_of(failed_write(error), again=again)
        if refusal is not None:
            self._refusals[key] = refusal
        if again or refusal is not None:
            self._tried.add(key)
        self._wake_reporting(key, at_once=True)

    async def _look_again(self, key: Key) -> None:
        """At a DaemonSet that no watch has shown for a while: somebody else's, or one that is gone."""
        age_s = self._cluster.sighted_s_ago(key)
        if age_s is not None and age_s >= LOOK_AGAIN_S:
            self._cluster.sight(key, await self._client.find(DAEMON_SETS, key.name, key.namespace))

    async def report(self, key: Key) -> Result:
        """Write the status, if it changed."""
        if self._yields(key):
            return Result(_STATUS_SPACING_S)
        observation = self._observe(key)
        if observation is None:
            return DONE
        decision = decide(observation)
        self._verifications.ask(key, decision.question)
        # as if the DaemonSet had been written already
        fleet = await self._judged(survey(observation, is_changing=decision.changes_pods))
        report = plan_report(observation, decision, fleet)
        try:
            for action in report.actions:
                await self.perform(key, observation, action)
        except NotFoundError:
            return DONE  # deleted meanwhile: nobody reads about it any more
        if report.look_again_at is None:
            return DONE
        return Result(max(0.0, (report.look_again_at - dt.datetime.now(dt.UTC)).total_seconds()))

    def _yields(self, key: Key) -> bool:
        """Whether DaemonSets go first: each costs the API server less than a status. Not for ever."""
        now, is_hurried = time.monotonic(), key in self._hurried
        self._hurried.discard(key)
        if (
            not is_hurried
            and self.deploying.queue.overdue
            and now < self._yielding.setdefault(key, now + YIELDS_S)
        ):
            return True
        self._yielding.pop(key, None)
        return False

    async def _judged(self, surveyed: Survey) -> Fleet:
        """The fleet, with turns for everybody else in between: it may have thousands of nodes."""
        states: list[NodeState] = []
        kernels: list[ProvedState] = []
        for start in range(0, len(surveyed.pods), _PODS_AT_ONCE):
            pods = surveyed.pods[start : start + _PODS_AT_ONCE]
            said = [surveyed.state_of(each) for each in pods]
            states += said
            if surveyed.observation.has_agents:
                kernels += map(surveyed.kernel_of, pods, said, self._sights(surveyed, pods))
            await asyncio.sleep(0)
        return surveyed.fleet(states, kernels)

    def _sights(self, surveyed: Survey, pods: Iterable[Pod]) -> Iterable[Sight]:
        return (self._cluster.look(each, surveyed.observation.now, surveyed.told) for each in pods)

    async def perform(self, key: Key, observation: Observation, action: Action) -> None:
        """Carry out one action; the only place where the cluster is changed."""
        match action:
            case CreateDaemonSet(body):
                await self._create(key, observation.schedext, body)
            case PatchDaemonSet(name):
                _log.info("daemonset_patching", schedext=str(key), fields=_fields(action))
                changed = await self._client.change(DAEMON_SETS, action.body, name, key.namespace)
                self._cluster.sight(key, changed)
            case DeleteDaemonSet(name, uid):
                _log.info("daemonset_deleting", schedext=str(key))
                with suppress(NotFoundError):
                    await self._client.delete(DAEMON_SETS, name, key.namespace, uid=uid)
            case WriteStatus():
                await self._write_status(key, action)
            case RecordEvent():
                self._recorder.record(_occurrence(observation.schedext, action))
            case _:
                assert_never(action)

    async def _create(self, key: Key, schedext: SchedExt, body: DaemonSet) -> None:
        if not await self._is_still_there(key, schedext):
            return  # the watch is about to say so
        _log.info("daemonset_creating", schedext=str(key))
        try:
            self._cluster.sight(key, await self._client.create(DAEMON_SETS, body, key.namespace))
        except AlreadyExistsError:
            # the cache is behind, or it is somebody else's, which no watch shows
            self._cluster.sight(key, await self._client.find(DAEMON_SETS, key.name, key.namespace))
            self.deploying.queue.add(key)

    async def _is_still_there(self, key: Key, schedext: SchedExt) -> bool:
        """Whether it is worth a DaemonSet; asked of the server when it had one before.

        That one may be gone because the SchedExt is, or because somebody stopped it, and the watch is not
        that far yet: another one would start the scheduler once more. A new SchedExt costs no request.
        """
        if schedext.status is None:
            return True
        found = await self._client.find(SCHEDEXTS, key.name, key.namespace)
        return found is not None and asks_the_same(schedext, found)

    async def _write_status(self, key: Key, action: WriteStatus) -> None:
        body = {
            "apiVersion": SCHEDEXTS.api_version,
            "kind": SCHEDEXTS.kind,
            "metadata": {
                "name": action.name,
                "namespace": key.namespace,
                "resourceVersion": action.resource_version,
            },
            "status": action.status,
        }
        try:
            await self._client.update(SCHEDEXTS, body, action.name, key.namespace, status=True)
        except ConflictError:
            if not await self._is_written(key, action):
                raise

    async def _is_written(self, key: Key, action: WriteStatus) -> bool:
        """Whether the server has it: its answer was lost, and what was sent again is in conflict."""
        found = await self._client.find(SCHEDEXTS, action.name, key.namespace)
        return found is not None and found.status == action.status

    def _forget(self, key: Key) -> None:
        self._refusals.pop(key, None)
        self._tried.discard(key)
        self._yielding.pop(key, None)
        self._hurried.discard(key)
        self._cluster.sight(key, None)
        self._verifications.forget(key)


def failed_write(error: KubeError) -> FailedWrite:
    """The failure that the error stands for."""
    match error:
        case ConflictError() | NotFoundError():
            return FailedWrite(WriteFailure.OUTDATED, error.message)
        case ApiError():
            is_ending = error.has_cause("NamespaceTerminating")
            return FailedWrite(WriteFailure.ENDING if is_ending else WriteFailure.REFUSED, error.message)
        case UnavailableError(code=HTTPStatus.INTERNAL_SERVER_ERROR):
            return FailedWrite(WriteFailure.BROKEN, str(error))
    return FailedWrite(WriteFailure.UNHEARD, str(error))


def _fields(action: PatchDaemonSet) -> str:
    return " ".join(operation.path for operation in action.operations)


def _occurrence(schedext: SchedExt, action: RecordEvent) -> Occurrence:
    meta = schedext.metadata
    about = Reference(SCHEDEXTS.api_version, SCHEDEXTS.kind, meta.name, meta.namespace, meta.uid)
    return Occurrence(about, action.reason, action.message, kind="Warning" if action.is_warning else "Normal")


def _eject(node: Node, ended: NodeExit) -> Occurrence:
    meta = node.metadata
    about = Reference(NODES.api_version, NODES.kind, meta.name, uid=meta.uid)
    return Occurrence(about, Reason.EJECTED.value, legible(words_of_eject(ended)), kind="Warning")


def _schedext_of_pod(pod: Pod) -> tuple[Key, ...]:
    """Its DaemonSet has the SchedExt's name."""
    return _named_by_owner(pod.metadata)


def _named_by_owner(meta: OwnedMeta) -> tuple[Key, ...]:
    return (Key(meta.namespace, meta.controller.name),) if meta.controller else ()


def _schedext_of_event(event: Event) -> tuple[Key, ...]:
    return (Key(event.metadata.namespace, event.involved_object.name),)
