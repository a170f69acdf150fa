"""Plans carried out on a real API server: what the types read there, and what it accepts from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_never

import msgspec
import pytest

from rig.base import polling
from rig.builders.plans import plan
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes
from rig.cluster.kubeclient import JSON_PATCH, ApiError, JsonObject
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.pods import Event, Pod
from schedkit.model.api.schedext import Condition, SchedExt, SchedExtStatus
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import CreateDaemonSet, DeleteDaemonSet, PatchDaemonSet
from schedkit.model.report.plan import Action, RecordEvent, WriteStatus

pytestmark = pytest.mark.full  # the tier would outgrow its budget

ROOT = Path(__file__).parents[2]
NODES = 3
IMAGE = "ghcr.io/schedkit/scx_rusty:v1"


class Hand:
    """Does by hand what an operator does: look, plan, act. It remembers nothing."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self._client = cluster.client
        self._core = f"/api/v1/namespaces/{namespace}"
        self._daemon_sets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        self._schedexts = f"/apis/sked.schedkit.io/v1/namespaces/{namespace}/schedexts"

    def ask(self, name: str, **spec: object) -> None:
        """Create the SchedExt, or give it another spec."""
        stored = self._client.find(f"{self._schedexts}/{name}")
        kind = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": name}}
        if stored is None:
            self._client.create(self._schedexts, {**kind, "spec": {"sched": IMAGE, **spec}})
        else:
            self._client.replace(f"{self._schedexts}/{name}", {**stored, "spec": {"sched": IMAGE, **spec}})

    def look(self, name: str, *, later_s: float = 0) -> Observation:
        """What is there, seen with a clock that may run ahead."""
        found = self._client.find(f"{self._daemon_sets}/{name}")
        return Observation(
            schedext=_read(self._client.get(f"{self._schedexts}/{name}"), SchedExt),
            now=datetime.now(UTC) + timedelta(seconds=later_s),
            daemon_set=None if found is None else _read(found, DaemonSet),
            pods=tuple(_read(item, Pod) for item in self._client.items(f"{self._core}/pods")),
            events=tuple(_read(item, Event) for item in self._client.items(f"{self._core}/events")),
        )

    def act(self, name: str, *, later_s: float = 0) -> tuple[Action, ...]:
        """Look, plan, and carry it out; what was done."""
        actions = plan(self.look(name, later_s=later_s))
        for action in actions:
            self.carry_out(action)
        return actions

    def act_until(self, name: str, holds: Callable[[SchedExtStatus], bool], *, later_s: float = 0) -> None:
        """Act again and again, as events would make an operator do, until the status is so."""

        def became_so() -> bool:
            self.act(name, later_s=later_s)
            return holds(self.status(name))

        polling.until(became_so, f"the status of {name} is as expected", timeout_s=60)

    def carry_out(self, action: Action) -> None:
        match action:
            case CreateDaemonSet(body):
                self._client.create(self._daemon_sets, _json(body))
            case PatchDaemonSet(name):
                self._client.patch(f"{self._daemon_sets}/{name}", _json(action.body), kind=JSON_PATCH)
            case DeleteDaemonSet(name, uid):
                self._client.delete(f"{self._daemon_sets}/{name}", {"preconditions": {"uid": uid}})
            case WriteStatus(name, version, status):
                meta = {"name": name, "resourceVersion": version}
                kind = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": meta}
                self._client.replace(f"{self._schedexts}/{name}/status", {**kind, "status": _json(status)})
            case RecordEvent():
                pass
            case _:
                assert_never(action)

    def status(self, name: str) -> SchedExtStatus:
        return _read(self._client.get(f"{self._schedexts}/{name}"), SchedExt).status or SchedExtStatus()

    def reason(self, name: str, kind: str) -> str:
        return _condition(self.status(name), kind).reason


def _read(body: JsonObject, kind: type[Any]) -> Any:  # noqa: ANN401 - of that type
    return msgspec.json.decode(json.dumps(body), type=kind)


def _json(value: object) -> Any:  # noqa: ANN401 - JSON
    return json.loads(msgspec.json.encode(value))


def _condition(status: SchedExtStatus, kind: str) -> Condition:
    return next((each for each in status.conditions if each.type == kind), Condition())


def _answers(kind: str, reason: str) -> Callable[[SchedExtStatus], bool]:
    return lambda status: _condition(status, kind).reason == reason


@pytest.fixture(scope="module", autouse=True)
def crd(cluster: ControlPlane) -> None:
    """The CRD of this tree, served."""
    cluster.apply((ROOT / "config/crd/bases/sked.schedkit.io_schedexts.yaml").read_text())
    cluster.kubectl("wait", "--for=condition=Established", "crd/schedexts.sked.schedkit.io")


@pytest.fixture
def hand(cluster: ControlPlane, namespace: str) -> Hand:
    return Hand(cluster, namespace)


@pytest.fixture(scope="module")
def few(cluster: ControlPlane, fake_nodes: FakeNodes) -> dict[str, str]:
    """The label of a few of the nodes."""
    for name in fake_nodes.names[:NODES]:
        cluster.client.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"plans": "few"}}})
    return {"plans": "few"}


def test_a_schedext_is_deployed_everywhere_and_then_nothing_is_left_to_do(
    cluster: ControlPlane, namespace: str, hand: Hand, few: dict[str, str]
) -> None:
    hand.ask("scx", nodeSelector=few)
    hand.act_until("scx", _answers("Deployed", "Settling"))
    hand.act_until("scx", _answers("Deployed", "PodsSettled"), later_s=31)

    nodes = hand.status("scx").nodes
    assert nodes is not None
    assert (nodes.desired, nodes.unknown, nodes.pods_ready) == (NODES, NODES, NODES)
    assert hand.status("scx").image.startswith(f"{IMAGE}@sha256:")
    assert hand.act("scx", later_s=99) == ()
    cluster.kubectl("wait", "--for=condition=Deployed", "scx/scx", "-n", namespace, "--timeout=5s")
    shown = cluster.kubectl("get", "scx", "-n", namespace, "-o", "wide").stdout.splitlines()[1].split()
    assert shown[:7] == ["scx", IMAGE, "3", "0", "3", "Unknown", "NoKernelReports"]


def test_a_changed_image_reaches_every_node(hand: Hand, few: dict[str, str]) -> None:
    hand.ask("scx", nodeSelector=few)
    hand.act_until("scx", _answers("Deployed", "PodsSettled"), later_s=31)

    hand.ask("scx", nodeSelector=few, sched="ghcr.io/schedkit/scx_rusty:v2", updateStrategy=_ALL_AT_ONCE)
    hand.act("scx", later_s=31)
    assert hand.reason("scx", "Deployed") == "RollingOut"
    hand.act_until("scx", _answers("Deployed", "PodsSettled"), later_s=31)

    assert hand.status("scx").image.startswith("ghcr.io/schedkit/scx_rusty:v2@")
    assert hand.status("scx").observed_generation == 2


_ALL_AT_ONCE = {"rollingUpdate": {"maxUnavailable": "100%"}}


def test_a_suspended_schedext_runs_nothing_and_comes_back(hand: Hand, few: dict[str, str]) -> None:
    hand.ask("scx", nodeSelector=few)
    hand.act_until("scx", _answers("Deployed", "PodsSettled"), later_s=31)

    hand.ask("scx", nodeSelector=few, suspend=True)
    hand.act_until("scx", _answers("Deployed", "Suspended"))
    polling.until(lambda: not hand.look("scx").pods, "no pod is left")
    assert hand.look("scx").daemon_set is None
    assert hand.act("scx") == ()

    hand.ask("scx", nodeSelector=few)
    hand.act_until("scx", _answers("Deployed", "PodsSettled"), later_s=31)


def test_pods_that_pod_security_refuses_are_reported_in_its_words(
    cluster: ControlPlane, namespace: str, hand: Hand, few: dict[str, str]
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.client.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": label}})
    hand.ask("scx", nodeSelector=few)

    hand.act_until("scx", _answers("Deployed", "PodsRefused"))

    status = hand.status("scx")
    assert status.nodes is not None
    assert (status.nodes.desired, status.nodes.failed) == (NODES, NODES)
    assert 'violates PodSecurity "restricted:latest": privileged' in status.worst_nodes[0].message
    assert hand.reason("scx", "Ready") == "PodsRefused"


def test_a_selector_that_matches_no_node_is_no_success(hand: Hand, few: dict[str, str]) -> None:
    hand.ask("scx", nodeSelector={"plans": "fwe"})

    hand.act_until("scx", _answers("Deployed", "NoNodes"))


def test_a_daemon_set_of_somebody_else_is_left_alone(
    cluster: ControlPlane, namespace: str, hand: Hand
) -> None:
    hand.ask("scx", nodeSelector={"plans": "none"})
    (creation, *_) = plan(hand.look("scx"))
    assert isinstance(creation, CreateDaemonSet)
    theirs = _json(creation.body)
    del theirs["metadata"]["ownerReferences"]
    theirs["spec"]["template"]["spec"]["containers"][0]["image"] = "theirs"
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
    before = cluster.client.create(path, theirs)

    hand.act("scx")

    assert hand.reason("scx", "Accepted") == "NameTaken"
    assert cluster.client.get(f"{path}/scx")["spec"] == before["spec"]
    assert hand.act("scx") == ()


def test_a_patch_of_an_older_version_is_refused(cluster: ControlPlane, namespace: str, hand: Hand) -> None:
    hand.ask("scx", nodeSelector={"plans": "none"})
    hand.act("scx")
    hand.ask("scx", nodeSelector={"plans": "none"}, args=["--new"])
    outdated = plan(hand.look("scx"))[0]
    assert isinstance(outdated, PatchDaemonSet)
    note = {"metadata": {"annotations": {"example.com/seen": "in between"}}}
    cluster.client.patch(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/scx", note)

    with pytest.raises(ApiError) as refused:
        hand.carry_out(outdated)

    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert hand.look("scx").daemon_set is not None


def test_deleting_the_schedext_removes_everything(
    cluster: ControlPlane, namespace: str, hand: Hand, few: dict[str, str]
) -> None:
    """With nobody's help: no operator looks here."""
    hand.ask("scx", nodeSelector=few)
    hand.act_until("scx", _answers("Deployed", "PodsSettled"), later_s=31)

    cluster.kubectl("delete", "schedext", "scx", "-n", namespace)

    kinds = "daemonsets,pods"
    polling.until(
        lambda: not cluster.kubectl("get", kinds, "-n", namespace, "-o", "name").stdout,
        "DaemonSet and pods are gone",
        timeout_s=60,
    )
