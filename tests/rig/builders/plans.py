"""All that sked does about what is seen, at once and without a pause, and what is seen after that."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, assert_never

import msgspec

from rig.builders.observations import through_json
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.quantities import amounts
from schedkit.model.api.schedext import SchedExtStatus
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.patch import Operation
from schedkit.model.deploy.plan import CreateDaemonSet, DeleteDaemonSet, PatchDaemonSet, decide
from schedkit.model.report.fleet import survey
from schedkit.model.report.plan import Action, Plan, RecordEvent, WriteStatus, plan_report
from schedkit.model.report.sights import Sight


def make_plan(observation: Observation, sights: Mapping[str, Sight] | None = None) -> Plan:
    """What to do, in this order. A plan made after it was carried out has no actions.

    `sights`: what is seen of the nodes beside their pods; None: no node has an agent.
    """
    if sights is not None:
        observation = replace(observation, has_agents=True)
    decision = decide(observation)
    surveyed = survey(observation, is_changing=decision.changes_pods)
    states = [surveyed.state_of(pod) for pod in surveyed.pods]
    seen = [(sights or {}).get(pod.spec.node_name, Sight()) for pod in surveyed.pods]
    kernels = list(map(surveyed.kernel_of, surveyed.pods, states, seen)) if sights is not None else []
    fleet = surveyed.fleet(states, kernels)
    report = plan_report(observation, decision, fleet)
    writes = (decision.write,) if decision.write else ()
    return Plan((*writes, *report.actions), report.look_again_at)


def plan(observation: Observation) -> tuple[Action, ...]:
    """The actions alone."""
    return make_plan(observation).actions


def carried_out(seen: Observation, actions: tuple[Action, ...]) -> Observation:
    """What is seen after the actions, before anyone else did anything."""
    for action in actions:
        seen = _after(seen, action)
    return seen


def _after(seen: Observation, action: Action) -> Observation:
    match action:
        case CreateDaemonSet(body):
            meta = msgspec.structs.replace(body.metadata, uid="a new one", generation=1)
            return replace(seen, daemon_set=served(msgspec.structs.replace(body, metadata=meta)))
        case PatchDaemonSet():
            assert seen.daemon_set is not None
            return replace(seen, daemon_set=_patched(seen.daemon_set, action))
        case DeleteDaemonSet():
            return replace(seen, daemon_set=None)
        case WriteStatus(status=status):
            stored = msgspec.convert(through_json(status), SchedExtStatus)
            return replace(seen, schedext=msgspec.structs.replace(seen.schedext, status=stored))
        case RecordEvent():
            return seen
        case _:
            assert_never(action)


def served(body: DaemonSet) -> DaemonSet:
    """As the API server would have it."""
    return msgspec.convert(_with_defaults(through_json(body)), DaemonSet)


def _with_defaults(document: Any) -> Any:
    """What the API server fills in; tests/cluster proves that it does."""
    spec = document["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = {"maxUnavailable": 1, "maxSurge": 0}
        strategy["rollingUpdate"] = rolling | (strategy.get("rollingUpdate") or {})
    for container in spec["template"]["spec"]["containers"]:
        moves = container["image"].rpartition("/")[2].partition(":")[2] == "latest"
        is_bare = not any(mark in container["image"] for mark in ":@")
        container.setdefault("imagePullPolicy", "Always" if moves or is_bare else "IfNotPresent")
        container.setdefault("terminationMessagePolicy", "File")
        resources = container.setdefault("resources", {})
        for kind in resources.keys() & {"requests", "limits"}:
            resources[kind] = {name: str(each) for name, each in amounts(resources[kind]).items()}
    return document


def _patched(observed: DaemonSet, action: PatchDaemonSet) -> DaemonSet:
    """As the API server does it: a changed spec is a new generation."""
    old = through_json(observed)
    new = copy.deepcopy(old)
    for operation in action.body:
        _apply(new, operation)
    if _with_defaults(new)["spec"] != old["spec"]:
        new["metadata"]["generation"] += 1
    return msgspec.convert(new, DaemonSet)


def _apply(document: Any, operation: Operation) -> None:
    *parents, last = operation.path.removeprefix("/").split("/")
    for parent in parents:
        document = document[int(parent) if isinstance(document, list) else parent]
    value = through_json(operation).get("value")
    match document, operation.op:
        case dict(), "remove":
            del document[last]
        case dict(), _:
            document[last] = value
        case list(), "remove":
            del document[int(last)]
        case list(), _:
            document.insert(len(document) if last == "-" else int(last), value)
