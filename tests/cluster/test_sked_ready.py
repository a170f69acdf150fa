"""`Ready` on a real control plane: a rollout by hand, and back, with reports as agents write them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from rig.base import polling
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes
from rig.cluster.kubeclient import JsonObject
from rig.operator import manager
from rig.operator.agents import NAMESPACE, REPORTS
from rig.operator.manager import IMAGE, SchedExts

AGENTS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LABEL = {"app.kubernetes.io/component": "node-agent"}


class Reports:
    """What agents on two nodes would say about the pods there."""

    def __init__(self, schedexts: SchedExts, nodes: tuple[str, str]) -> None:
        self.schedexts, self.nodes, self._client = schedexts, nodes, schedexts.cluster.client
        for node in nodes:
            spec = {"nodeName": node, "containers": [{"name": "agent", "image": "registry.example/sked:v1"}]}
            meta = {"name": f"agent-{node}", "labels": LABEL}
            self._client.create(AGENTS, {"metadata": meta, "spec": spec})

    def tell(self, state: str = "enabled") -> None:
        """Write what each kernel runs now: the scheduler of the pod that is there."""
        for node in self.nodes:
            self._write(node, state, polling.until(partial(self._pod_on, node), f"a pod on {node}"))

    def _pod_on(self, node: str) -> str | None:
        pods = (each for each in self.schedexts.pods() if each["spec"].get("nodeName") == node)
        living = (each for each in pods if "deletionTimestamp" not in each["metadata"])
        return next((each["metadata"]["uid"] for each in living), None)

    def _write(self, node: str, state: str, uid: str) -> None:
        there = self._client.get(f"/api/v1/nodes/{node}")
        status = {
            "nodeUID": there["metadata"]["uid"],
            "kernel": {"bootID": there["status"]["nodeInfo"]["bootID"]},
            "state": state,
            "owner": {"kind": "Pod", "podUID": uid} if state == "enabled" else {"kind": "None"},
            "eligible": "Yes",
        }
        kind = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExtNode", "metadata": {"name": node}}
        if self._client.find(f"{REPORTS}/{node}") is None:
            self._client.create(REPORTS, {**kind, "status": status})
        else:
            self._client.patch(f"{REPORTS}/{node}", {"status": status})

    def replace_pod(self, node: str) -> None:
        """As who updates by hand does, until another one is there; then the node reports it."""
        old = self._pod_on(node)
        for each in self.schedexts.pods():
            if each["metadata"]["uid"] == old:
                path = f"/api/v1/namespaces/{self.schedexts.namespace}/pods"
                self._client.delete(f"{path}/{each['metadata']['name']}")
        polling.until(lambda: self._pod_on(node) not in (None, old), f"another pod on {node}")
        self.tell()

    def remove(self) -> None:
        for node in self.nodes:
            self._client.delete(f"{AGENTS}/agent-{node}")
            self._client.delete(f"{REPORTS}/{node}")


@pytest.fixture
def schedexts(cluster: ControlPlane, namespace: str) -> SchedExts:
    return SchedExts(cluster, namespace)


@pytest.fixture
def reports(cluster: ControlPlane, schedexts: SchedExts, fake_nodes: FakeNodes) -> Iterator[Reports]:
    manager.install_crd(cluster)
    if cluster.client.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
        cluster.client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    one, other = fake_nodes.names[:2]
    for node in (one, other):
        cluster.client.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"ready": "some"}}})
    found = Reports(schedexts, (one, other))
    with manager.running(cluster):
        yield found
    found.remove()


def counted(schedexts: SchedExts) -> tuple[int, int]:
    nodes: JsonObject = schedexts.status().get("nodes", {})
    return nodes.get("attached", 0), nodes.get("updated", 0)


def test_ready_follows_a_change_that_is_rolled_out_by_hand_and_taken_back(reports: Reports) -> None:
    schedexts, (one, other) = reports.schedexts, reports.nodes
    schedexts.create(nodeSelector={"ready": "some"}, updateStrategy={"type": "OnDelete"})
    reports.tell("disabled")
    schedexts.await_reason("Ready", "Attaching")
    reports.tell()
    assert schedexts.await_reason("Ready", "Attached")["status"] == "True"

    schedexts.change(sched="ghcr.io/schedkit/scx_rusty:v2")
    told = schedexts.await_reason("Ready", "RollingOut")
    polling.until(lambda: counted(schedexts) == (2, 0), "both run what was asked for before")
    assert told["status"] == "False"
    reports.replace_pod(one)
    polling.until(lambda: counted(schedexts) == (2, 1), "one runs what is asked for")
    told = schedexts.condition("Ready")
    assert (told["status"], told["reason"]) == ("False", "RollingOut")
    assert f"such as {other}" in told["message"]
    assert "delete these pods" in told["message"]

    schedexts.change(sched=IMAGE)

    def names_the_one_that_was_replaced() -> bool:
        """The other one was never changed: its template came back, with a new number."""
        told = schedexts.condition("Ready")
        return f"such as {one}" in told["message"] and counted(schedexts) == (2, 1)

    polling.until(names_the_one_that_was_replaced, "the way back has begun")
    reports.replace_pod(one)
    assert schedexts.await_reason("Ready", "Attached")["status"] == "True"
    assert counted(schedexts) == (2, 2)
