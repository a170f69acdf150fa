"""`kubectl sked` as a program, on a real control plane with fake nodes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import polling, processes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes
from rig.cluster.kubeclient import JsonObject
from rig.operator import manager
from rig.operator.manager import SchedExts

NEEDS, STOP = "sked.schedkit.io/needs", "sked.schedkit.io/stop"
REPORTS = "/apis/sked.schedkit.io/v1/schedextnodes"
NODES = 2


@pytest.fixture(scope="module", autouse=True)
def served(cluster: ControlPlane) -> None:
    manager.install_crd(cluster)


@pytest.fixture(scope="module")
def some(cluster: ControlPlane, fake_nodes: FakeNodes) -> dict[str, str]:
    """The label of a few nodes."""
    for name in fake_nodes.names[:NODES]:
        cluster.client.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"plugin": "some"}}})
    return {"plugin": "some"}


@pytest.fixture
def schedexts(cluster: ControlPlane, namespace: str, some: dict[str, str]) -> Iterator[SchedExts]:
    """One SchedExt with a pod on each of these nodes; the manager that made them is gone."""
    found = SchedExts(cluster, namespace)
    with manager.running(cluster):
        found.create(nodeSelector=some)
        polling.until(lambda: len(_placed(found)) == NODES, "every node has a pod")
    yield found
    for each in cluster.client.items(REPORTS):
        cluster.client.delete(f"{REPORTS}/{each['metadata']['name']}")


def _placed(schedexts: SchedExts) -> dict[str, str]:
    """The nodes of its pods, by their uids."""
    pods = schedexts.pods()
    return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def kubectl_sked(
    schedexts: SchedExts, *words: str, kubeconfig: Path | None = None
) -> tuple[int, str, JsonObject]:
    """Exit code, what it told beside, and the answer."""
    program = str(Path(sys.executable).with_name("kubectl-sked"))
    reached = str(kubeconfig or schedexts.cluster.kubeconfig)
    ended = processes.run(
        [program, *words, "--kubeconfig", reached, "-o", "json"],
        check=False,
        env=dict(os.environ),
        timeout_s=60,
    )
    return ended.returncode, ended.stderr, json.loads(ended.stdout) if ended.stdout else {}


def _report(schedexts: SchedExts, node: str, uid: str) -> JsonObject:
    """That the kernel of the node runs the scheduler of that pod."""
    meta = schedexts.cluster.client.get(f"/api/v1/nodes/{node}")
    status = {
        "nodeUID": meta["metadata"]["uid"],
        "kernel": {"bootID": meta["status"]["nodeInfo"]["bootID"], "release": "6.18.0"},
        "state": "enabled",
        "ops": "rusty",
        "owner": {"kind": "Pod", "podUID": uid},
        "eligible": "Yes",
    }
    kind = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExtNode", "metadata": {"name": node}}
    return schedexts.cluster.client.create(REPORTS, {**kind, "status": status})


def test_a_stop_ends_everything_and_outlasts_a_changed_spec_until_it_is_taken_back(
    cluster: ControlPlane, schedexts: SchedExts
) -> None:
    namespace = schedexts.namespace
    schedexts.annotate(**{"somebody/else": "stays"})
    with manager.running(cluster):
        code, told, answer = kubectl_sked(schedexts, "stop", "scx", "-n", namespace, "--reason", "latency")

        assert (code, answer["remaining"], answer["nodes"]) == (0, [], NODES), told
        assert not schedexts.pods()
        assert schedexts.daemon_set() is None
        ready = schedexts.await_reason("Ready", "Stopped")
        assert "stopped by admin" in ready["message"]
        assert "latency" in ready["message"]

        schedexts.change(sched="ghcr.io/schedkit/scx_rusty:v2")
        polling.until(lambda: schedexts.status()["observedGeneration"] == 2, "the change is seen")
        assert polling.stays_untrue(schedexts.daemon_set, for_s=2)

        assert kubectl_sked(schedexts, "resume", "--all")[2]["resumed"] == [f"{namespace}/scx"]
        schedexts.await_daemon_set()
    notes = schedexts.get()["metadata"]["annotations"]
    assert (notes.get(STOP), notes.get(NEEDS), notes["somebody/else"]) == (None, None, "stays")


def test_a_stop_works_without_a_manager_and_stays_when_one_comes_back(
    cluster: ControlPlane, schedexts: SchedExts
) -> None:
    code, told, answer = kubectl_sked(schedexts, "stop", "scx", "-n", schedexts.namespace)

    assert (code, answer["remaining"]) == (0, []), told
    assert "no manager has answered" in told
    assert len(answer["unwitnessed"]) == NODES
    assert schedexts.get()["metadata"]["annotations"][NEEDS] == "stop"
    with manager.running(cluster):
        schedexts.await_reason("Ready", "Stopped")
        assert schedexts.daemon_set() is None


def test_a_node_whose_kernel_still_runs_it_is_named(schedexts: SchedExts) -> None:
    """The kernel is the truth: a pod that is gone proves nothing."""
    uid, node = min(_placed(schedexts).items())
    _report(schedexts, node, uid)

    code, told, answer = kubectl_sked(schedexts, "stop", "scx", "-n", schedexts.namespace, "--timeout", "8")

    assert code == 1, told
    assert answer["remaining"] == [{"node": node, "reason": "its kernel still runs the scheduler"}]


def test_a_node_is_explained_with_its_owner(schedexts: SchedExts) -> None:
    uid, node = min(_placed(schedexts).items())
    _report(schedexts, node, uid)

    code, _, answer = kubectl_sked(schedexts, "explain", node)

    assert code == 0
    assert answer["kernel"] == "the kernel runs rusty"
    assert answer["owner"].endswith(f"of SchedExt {schedexts.namespace}/scx")
    assert [each["ownsKernel"] for each in answer["occupants"] if "scx" in each["schedext"]] == [True]
    assert kubectl_sked(schedexts, "explain", "nobody")[0] == 1


def test_what_the_caller_may_not_see_is_named_and_the_rest_is_done(
    cluster: ControlPlane, schedexts: SchedExts
) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "stops-schedexts"},
        "rules": [
            {"apiGroups": ["sked.schedkit.io"], "resources": ["schedexts"], "verbs": ["get", "list", "patch"]}
        ],
    }
    cluster.apply(role)
    words = ("create", "clusterrolebinding", "stops-schedexts", "--clusterrole=stops-schedexts", "--user=kim")
    cluster.kubectl(*words)
    kim = cluster.user("kim")

    with manager.running(cluster):
        code, told, answer = kubectl_sked(schedexts, "stop", "--all", kubeconfig=kim)
        polling.until(lambda: not schedexts.pods(), "what kim stopped is gone")

    assert code == 3, told
    assert any("pods" in each for each in answer["missingRights"])
    assert json.loads(schedexts.get()["metadata"]["annotations"][STOP])["by"] == "kim"


def test_schedexts_are_shown_with_what_kernels_are_known_to_run(schedexts: SchedExts) -> None:
    code, _, answer = kubectl_sked(schedexts, "get", "-n", schedexts.namespace)

    (found,) = answer["items"]
    assert code == 0
    assert (found["name"], found["desired"]) == ("scx", NODES)
    assert found["reason"] == schedexts.condition("Ready")["reason"]


def test_nobody_hides_others_behind_big_annotations(cluster: ControlPlane, namespace: str) -> None:
    found = SchedExts(cluster, namespace)
    for number in range(20):
        found.create(f"big-{number}", nodeSelector={"plugin": "nowhere"})
        found.annotate(f"big-{number}", **{"somebody/else": "x" * 250_000})

    code, told, answer = kubectl_sked(found, "get", "-n", namespace)

    assert code == 0, told
    assert len(answer["items"]) == 20
    assert len(kubectl_sked(found, "stop", "--all", "-n", namespace)[2]["stopped"]) == 20
