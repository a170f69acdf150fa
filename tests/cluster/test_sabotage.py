"""With a part of the control plane taken away, tests see it: what they see otherwise is its work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from rig.base import polling, processes
from rig.base.errors import RigError
from rig.builders import kubernetes_objects
from rig.cluster import controlplane, fakenodes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes
from rig.cluster.kubeclient import Client, JsonObject


@pytest.fixture(scope="module")
def victim() -> Iterator[ControlPlane]:
    """A control plane of our own to break; each test leaves it whole."""
    with controlplane.running("sabotage", fake_nodes=True) as plane:
        yield plane


@pytest.fixture(scope="module")
def nodes(victim: ControlPlane) -> Iterator[FakeNodes]:
    with fakenodes.running(victim, 3) as pool:
        yield pool


@pytest.fixture
def storage() -> Iterator[ControlPlane]:
    """Only etcd and an API server, and not to be used again."""
    plane = ControlPlane(processes.run_folder("storage"))
    try:
        plane.component("etcd").start()
        plane.apiserver.start()
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(plane.folder)


def _pods(cluster: ControlPlane, namespace: str) -> list[JsonObject]:
    return cluster.client.items(f"/api/v1/namespaces/{namespace}/pods")


def _running(cluster: ControlPlane, namespace: str) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in _pods(cluster, namespace))


def test_an_object_survives_a_crash_of_the_api_server(victim: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    before = victim.client.create(path, kubernetes_objects.config_map("survivor", answer="42"))

    victim.apiserver.kill()
    with pytest.raises(ConnectionRefusedError):
        victim.client.get(f"{path}/survivor")

    victim.apiserver.start()
    after = victim.client.get(f"{path}/survivor")
    assert (after["data"], after["metadata"]["uid"]) == ({"answer": "42"}, before["metadata"]["uid"])


def test_an_object_does_not_survive_the_loss_of_etcds_data(storage: ControlPlane) -> None:
    """The sabotage of the test above: what survives lies in etcd, and nowhere else."""
    path = "/api/v1/namespaces"
    storage.client.create(path, {"metadata": {"name": "victim"}})
    etcd = storage.component("etcd")

    storage.apiserver.kill()
    etcd.kill()
    shutil.rmtree(storage.folder / "etcd")
    etcd.start()
    storage.apiserver.start()

    assert storage.client.find(f"{path}/victim") is None
    assert storage.client.find(f"{path}/kube-system")


def test_a_frozen_api_server_answers_nobody_until_it_is_thawed(victim: ControlPlane) -> None:
    impatient = Client(victim.kubeconfig, timeout_s=5)
    assert impatient.text("/readyz") == "ok"

    victim.apiserver.freeze()
    with pytest.raises(TimeoutError):
        impatient.text("/readyz")

    victim.apiserver.thaw()
    polling.until(victim.is_ready, "the API server is ready again")


def test_without_etcd_the_api_server_is_not_ready(victim: ControlPlane) -> None:
    etcd = victim.component("etcd")

    etcd.kill()
    polling.until(lambda: not victim.is_ready(), "the API server noticed")

    etcd.start()
    polling.until(victim.is_ready, "the API server is ready again", timeout_s=60)


def test_without_the_controller_manager_no_pod_appears(victim: ControlPlane, nodes: FakeNodes) -> None:
    namespace = victim.create_namespace()
    victim.controller_manager.stop()
    victim.apply(kubernetes_objects.daemon_set("agents", nodes=nodes.selector), namespace=namespace)
    assert polling.stays_untrue(lambda: _pods(victim, namespace), for_s=3)

    victim.controller_manager.start()
    polling.until(lambda: _running(victim, namespace) == 3, "three pods run", timeout_s=60)


def test_without_the_scheduler_pods_have_no_node(victim: ControlPlane, nodes: FakeNodes) -> None:
    namespace = victim.create_namespace()
    scheduler = victim.component("kube-scheduler")
    scheduler.stop()
    victim.apply(kubernetes_objects.daemon_set("agents", nodes=nodes.selector), namespace=namespace)
    polling.until(lambda: len(_pods(victim, namespace)) == 3, "three pods exist", timeout_s=60)
    assert polling.stays_untrue(lambda: _running(victim, namespace), for_s=2)

    scheduler.start()
    polling.until(lambda: _running(victim, namespace) == 3, "three pods run", timeout_s=60)


def test_fake_kubelets_go_on_after_the_api_server_was_restarted(
    victim: ControlPlane, nodes: FakeNodes
) -> None:
    namespace = victim.create_namespace()
    victim.apiserver.restart()

    victim.apply(kubernetes_objects.daemon_set("agents", nodes=nodes.selector), namespace=namespace)

    polling.until(lambda: _running(victim, namespace) == 3, "three pods run", timeout_s=60)


def test_starting_what_runs_and_naming_what_is_not_there_are_refused(victim: ControlPlane) -> None:
    with pytest.raises(RigError, match="kube-apiserver already runs"):
        victim.apiserver.start()
    with pytest.raises(RigError, match="it has etcd, kube-apiserver"):
        victim.component("kube-proxy")


def test_a_program_that_cannot_start_is_reported_with_the_end_of_its_log(victim: ControlPlane) -> None:
    victim.component("kube-scheduler").stop()
    broken = victim.component("kube-scheduler")
    kubeconfig = next(victim.folder.glob("*scheduler.kubeconfig"))
    hidden = kubeconfig.rename(kubeconfig.with_suffix(".hidden"))
    try:
        with pytest.raises(RigError, match=r"ended with \d+ before it was ready:\n(.|\n)*no such file"):
            broken.start()
    finally:
        hidden.rename(kubeconfig)
    broken.start()
