"""`sked manager` as a process, on a real control plane with fake nodes: what users and their objects see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig import manager, polling
from rig.controlplane import ControlPlane
from rig.fakenodes import FakeNodes
from rig.manager import IMAGE, Manager, SchedExts

NODES = 3
ALL_AT_ONCE = {"rollingUpdate": {"maxUnavailable": "100%"}}


@pytest.fixture(scope="module", autouse=True)
def sked(cluster: ControlPlane) -> Iterator[Manager]:
    """One manager for all tests that leave it alone."""
    manager.install_crd(cluster)
    with manager.running(cluster) as running:
        yield running


@pytest.fixture
def schedexts(cluster: ControlPlane, namespace: str) -> SchedExts:
    return SchedExts(cluster, namespace)


@pytest.fixture(scope="module")
def few(cluster: ControlPlane, fake_nodes: FakeNodes) -> dict[str, str]:
    """The label of a few of the nodes."""
    for name in fake_nodes.names[:NODES]:
        cluster.client.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"sked": "few"}}})
    return {"sked": "few"}


def test_a_schedext_is_deployed_changed_suspended_and_deleted(
    cluster: ControlPlane, schedexts: SchedExts, few: dict[str, str]
) -> None:
    namespace = schedexts.namespace
    schedexts.create(nodeSelector=few, updateStrategy=ALL_AT_ONCE)
    made = schedexts.await_daemon_set()
    schedexts.await_reason("Deployed", "Settling")
    cluster.kubectl(
        "wait", "--for=condition=Deployed", "scx/scx", "-n", namespace, "--timeout=60s", timeout_s=70
    )

    status = schedexts.status()
    assert made["metadata"]["ownerReferences"][0]["uid"] == schedexts.get()["metadata"]["uid"]
    assert (status["observedGeneration"], status["nodes"]["podsReady"]) == (1, NODES)
    assert status["image"].startswith(f"{IMAGE}@sha256:")
    assert schedexts.condition("Ready")["reason"] == "NoKernelReports"

    schedexts.change(sched="ghcr.io/schedkit/scx_rusty:v2")
    polling.until(lambda: schedexts.status()["image"].startswith("ghcr.io/schedkit/scx_rusty:v2@"), "v2 runs")
    assert schedexts.condition("Deployed")["observedGeneration"] == 2
    assert {pod["spec"]["containers"][0]["image"] for pod in schedexts.pods()} == {
        "ghcr.io/schedkit/scx_rusty:v2"
    }

    schedexts.change(suspend=True)
    schedexts.await_reason("Deployed", "Suspended")
    polling.until(lambda: not schedexts.pods() and not schedexts.daemon_set(), "nothing runs")

    schedexts.change(suspend=None)
    schedexts.await_daemon_set()
    schedexts.delete()
    polling.until(lambda: not schedexts.pods() and not schedexts.daemon_set(), "nothing is left")
