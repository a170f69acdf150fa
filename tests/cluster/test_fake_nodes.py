"""Fake nodes look like real ones to everybody who reads them, and their pods live and end."""

from __future__ import annotations

import json
import time

import pytest

from rig.base import polling
from rig.base.progress import say
from rig.builders import kubernetes_objects
from rig.cluster import fakekubelets, fakenodes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes
from rig.cluster.kubeclient import JsonObject

_MANY = 2000


def _daemon_sets(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/daemonsets"


def _pods(cluster: ControlPlane, namespace: str) -> list[JsonObject]:
    return cluster.client.items(f"/api/v1/namespaces/{namespace}/pods")


def _all_ready(cluster: ControlPlane, namespace: str, name: str, count: int) -> bool:
    status = cluster.client.get(f"{_daemon_sets(namespace)}/{name}")["status"]
    return bool(status["desiredNumberScheduled"] == status["numberReady"] == count)


def _is_ready(thing: JsonObject) -> bool:
    conditions = thing.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_fake_nodes_are_ready_untainted_and_as_big_as_real_ones(
    cluster: ControlPlane, fake_nodes: FakeNodes
) -> None:
    nodes = cluster.client.items("/api/v1/nodes", labelSelector=f"{fakenodes.POOL_LABEL}={fake_nodes.pool}")

    assert len(nodes) == 20
    assert all(_is_ready(node) for node in nodes)
    assert not any("taints" in node["spec"] for node in nodes)
    assert min(len(json.dumps(node, separators=(",", ":"))) for node in nodes) >= 15_000
    assert len({node["status"]["nodeInfo"]["bootID"] for node in nodes}) == 20


def test_pods_of_a_daemon_set_run_on_every_fake_node_and_are_gone_after_its_deletion(
    cluster: ControlPlane, fake_nodes: FakeNodes, namespace: str
) -> None:
    cluster.client.create(
        _daemon_sets(namespace), kubernetes_objects.daemon_set("everywhere", nodes=fake_nodes.selector)
    )
    polling.until(lambda: _all_ready(cluster, namespace, "everywhere", 20), "20 pods are ready", timeout_s=60)
    pods = _pods(cluster, namespace)

    assert sorted(pod["spec"]["nodeName"] for pod in pods) == fake_nodes.names
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert all(pod["status"]["startTime"] for pod in pods)
    assert len({pod["status"]["podIP"] for pod in pods}) == 20
    assert all("running" in pod["status"]["containerStatuses"][0]["state"] for pod in pods)

    cluster.client.delete(f"{_daemon_sets(namespace)}/everywhere")
    polling.until(lambda: not _pods(cluster, namespace), "all pods are gone", timeout_s=60)


def test_a_pod_with_a_readiness_gate_waits_until_somebody_opens_it(
    cluster: ControlPlane, fake_nodes: FakeNodes, namespace: str
) -> None:
    gate = "example.com/attached"
    gated = kubernetes_objects.daemon_set(
        "gated", nodes=_only(fake_nodes, 3), readinessGates=[{"conditionType": gate}]
    )
    cluster.client.create(_daemon_sets(namespace), gated)
    pod = polling.until(lambda: _running(cluster, namespace), "its pod runs")[0]
    assert not _is_ready(pod)

    opened = {"status": {"conditions": [{"type": gate, "status": "True"}]}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    cluster.client.patch(f"{path}/status", opened, kind="application/strategic-merge-patch+json")

    polling.until(lambda: _is_ready(cluster.client.get(path)), "the pod is ready")


def _only(nodes: FakeNodes, index: int) -> dict[str, str]:
    return {"kubernetes.io/hostname": nodes.names[index]}


def _running(cluster: ControlPlane, namespace: str) -> list[JsonObject]:
    return [pod for pod in _pods(cluster, namespace) if pod["status"]["phase"] == "Running"]


def test_without_the_stand_in_for_kubelets_pods_neither_start_nor_end(
    cluster: ControlPlane, namespace: str
) -> None:
    with fakenodes.running(cluster, 1, pool="silent") as nodes:
        nodes.kubelets.stop()
        cluster.client.create(
            _daemon_sets(namespace), kubernetes_objects.daemon_set("silent", nodes=nodes.selector)
        )
        polling.until(lambda: _bound(cluster, namespace), "its pod has a node")
        assert polling.stays_untrue(lambda: _running(cluster, namespace), for_s=2)

        cluster.client.delete(f"{_daemon_sets(namespace)}/silent")
        polling.until(lambda: _ending(cluster, namespace), "its pod is asked to end")
        assert polling.stays_untrue(lambda: not _pods(cluster, namespace), for_s=2)

        nodes.kubelets.start()
        polling.until(lambda: not _pods(cluster, namespace), "its pod is gone")


def _bound(cluster: ControlPlane, namespace: str) -> list[JsonObject]:
    return [pod for pod in _pods(cluster, namespace) if "nodeName" in pod["spec"]]


def _ending(cluster: ControlPlane, namespace: str) -> list[JsonObject]:
    return [pod for pod in _pods(cluster, namespace) if "deletionTimestamp" in pod["metadata"]]


def test_pods_on_nodes_of_somebody_else_are_left_alone(
    cluster: ControlPlane, fake_nodes: FakeNodes, namespace: str
) -> None:
    foreign = fakenodes.node_object("foreign", 0)
    del foreign["metadata"]["labels"][fakenodes.POOL_LABEL]
    cluster.client.create("/api/v1/nodes", foreign)
    for name, node in (("theirs", "foreign-00000"), ("ours", fake_nodes.names[0])):
        pod = kubernetes_objects.pod(name)
        pod["spec"]["nodeName"] = node
        cluster.client.create(f"/api/v1/namespaces/{namespace}/pods", pod)

    polling.until(lambda: _running(cluster, namespace), "our pod runs")

    assert polling.stays_untrue(lambda: len(_running(cluster, namespace)) > 1, for_s=1)
    cluster.client.delete("/api/v1/nodes/foreign-00000")


def test_a_stand_in_is_ready_again_only_when_the_new_process_watches(cluster: ControlPlane) -> None:
    with fakenodes.running(cluster, 1, pool="restarted") as nodes:
        first = nodes.kubelets.pid
        nodes.kubelets.stop()
        nodes.kubelets.start(wait=False)
        said_at_once = nodes.kubelets.log.read_text()
        nodes.kubelets.await_ready()

        assert f"process {first} is watching" in said_at_once
        assert f"process {nodes.kubelets.pid} is watching" in nodes.kubelets.log.read_text()


def test_no_two_pods_get_the_same_address_and_a_restart_changes_none() -> None:
    pods = [{"metadata": {"uid": f"uid-{number}"}} for number in range(5000)]
    before = fakekubelets.Addresses()
    given = [before.of(pod) for pod in pods]
    assert len(set(given)) == 5000
    assert [before.of(pod) for pod in pods] == given

    after = fakekubelets.Addresses()
    for pod, address in zip(pods, given, strict=True):
        after.learn(pod | {"status": {"podIP": address}})

    assert [after.of(pod) for pod in reversed(pods)] == given[::-1]
    assert after.of({"metadata": {"uid": "one more"}}) not in given


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_thousands_of_fake_nodes_carry_a_daemon_set(cluster: ControlPlane, namespace: str) -> None:
    started = time.monotonic()
    with fakenodes.running(cluster, _MANY, pool="many") as nodes:
        say(f"{_MANY} fake nodes after {time.monotonic() - started:.0f} s")
        cluster.client.create(
            _daemon_sets(namespace), kubernetes_objects.daemon_set("many", nodes=nodes.selector)
        )
        polling.until(
            lambda: _all_ready(cluster, namespace, "many", _MANY), "all pods are ready", timeout_s=600
        )
        say(f"{_MANY} pods ready after {time.monotonic() - started:.0f} s")
        pods = _pods(cluster, namespace)
        assert len({pod["spec"]["nodeName"] for pod in pods}) == _MANY
        assert len({pod["status"]["podIP"] for pod in pods}) == _MANY
        cluster.client.delete(f"{_daemon_sets(namespace)}/many")
        polling.until(lambda: not _pods(cluster, namespace), "all pods are gone", timeout_s=600, poll_s=1)
    say(f"{_MANY} pods gone after {time.monotonic() - started:.0f} s")
