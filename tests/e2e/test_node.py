"""A guest is a real node: it pulls, runs, answers for its pods, and its kernel obeys a DaemonSet."""

from __future__ import annotations

import json

import pytest

from rig.base import polling, processes
from rig.builders import kubernetes_objects
from rig.cluster import node
from rig.cluster.kubeclient import JsonObject
from rig.cluster.node import Node
from rig.guest import kernels
from rig.guest.schedulers import catalog
from rig.registries import registry
from rig.registries.distribution import Client
from rig.runtimes import images

from .sites import Site

PULL_FAILED = {"ErrImagePull", "ImagePullBackOff"}


def probe_pod(name: str, image: str, *arguments: str) -> JsonObject:
    """A pod that meets the `restricted` Pod Security standard and ends for good."""
    pod = kubernetes_objects.pod(name, image=image)
    pod["spec"] |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    pod["spec"]["containers"][0]["args"] = list(arguments)
    return pod


@pytest.fixture
def probe(site: Site) -> str:
    """The probe's image by digest, under the one name that host, node and pods share."""
    return site.push(images.probe(), "probe")


@pytest.fixture
def fifo(site: Site) -> str:
    """The image of a scheduler by digest."""
    return site.push(images.scheduler("fifo"), "fifo")


def test_a_restricted_pod_reads_the_api_with_its_own_token(site: Site, probe: str) -> None:
    site.enforce("restricted")
    site.cluster.kubectl("create", "role", "reader", "--verb=get", "--resource=pods", "-n", site.namespace)
    account = f"{site.namespace}:default"
    site.cluster.kubectl(
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        f"--serviceaccount={account}",
        "-n",
        site.namespace,
    )

    site.apply(probe_pod("reader", probe, "get-api", f"/api/v1/namespaces/{site.namespace}/pods/reader"))

    pod = site.await_phase("reader", "Succeeded", "Failed")
    answer = json.loads(site.logs("reader"))
    assert pod["status"]["phase"] == "Succeeded"
    assert answer["metadata"]["uid"] == pod["metadata"]["uid"]


def test_a_pod_without_a_role_is_refused_by_the_api(site: Site, probe: str) -> None:
    """The sabotage of the test above: the same pod, without the permission."""
    site.apply(probe_pod("stranger", probe, "get-api", f"/api/v1/namespaces/{site.namespace}/pods/stranger"))

    pod = site.await_phase("stranger", "Succeeded", "Failed")

    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


def test_the_kubelet_pulls_by_digest_from_the_rigs_registry(site: Site, probe: str) -> None:
    site.apply(probe_pod("sleeper", probe, "sleep"))

    pod = site.await_phase("sleeper", "Running")

    assert pod["spec"]["nodeName"] == site.node.name
    assert pod["status"]["containerStatuses"][0]["imageID"] == probe


def test_exec_and_logs_reach_the_pod_from_the_host(site: Site, probe: str) -> None:
    site.apply(probe_pod("sleeper", probe, "sleep"))
    site.await_phase("sleeper", "Running")

    read = ["/usr/bin/probe", "read", "/sys/kernel/sched_ext/state"]
    seen = site.cluster.kubectl("exec", "-n", site.namespace, "sleeper", "--", *read)

    assert seen.stdout.strip() == site.state()


def test_a_pod_finds_the_registry_under_the_same_name(site: Site, probe: str) -> None:
    authority = site.cluster.layout.authority.ca_file.read_text()
    trust = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trust"}}
    site.apply(trust | {"data": {"ca.crt": authority}})
    url = f"https://{site.images.named_host}/v2/"
    pod = probe_pod("client", probe, "https-get", url, "--ca", "/trust/ca.crt")
    pod["spec"]["volumes"] = [{"name": "trust", "configMap": {"name": "trust"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "trust", "mountPath": "/trust"}]

    site.apply(pod)

    assert site.await_phase("client", "Succeeded", "Failed")["status"]["phase"] == "Succeeded"


def test_the_host_finds_the_registry_under_the_same_name(site: Site) -> None:
    client = Client(f"https://{site.images.named_host}", site.images.ca_file)

    assert client.request("GET", "/v2/").status == 200


def test_the_rest_of_the_machine_does_not_know_that_name(site: Site) -> None:
    """The sabotage of the test above: it is our own /etc/hosts that knows it."""
    outside = ["nsenter", "--target", "1", "--mount", "getent", "hosts", registry.NAME]

    assert processes.run(["getent", "hosts", registry.NAME]).stdout.split() == ["127.0.0.1", registry.NAME]
    assert processes.run(outside, check=False).stdout == ""


def test_without_the_registry_a_new_image_cannot_be_pulled(site: Site) -> None:
    unpulled = site.push(images.scheduler("alias"), "unpulled")
    site.images.stop()
    try:
        site.apply(probe_pod("stuck", unpulled))

        site.until(lambda: site.waiting_reason("stuck") in PULL_FAILED, "the pull has failed")
    finally:
        site.images.start()


def test_a_daemonset_attaches_its_scheduler_and_its_deletion_detaches_it(site: Site, fifo: str) -> None:
    assert site.state() == "disabled"

    site.apply(kubernetes_objects.scheduler_daemon_set("fifo", fifo))

    site.until(lambda: site.state() == "enabled", "the kernel is enabled")
    assert site.node.read("/sys/kernel/sched_ext/root/ops") == catalog()["fifo"].ops_name

    site.cluster.client.delete(f"/apis/apps/v1/namespaces/{site.namespace}/daemonsets/fifo")

    site.until(lambda: site.state() == "disabled", "the kernel is disabled")


def test_a_daemonset_without_privileges_attaches_nothing(site: Site, fifo: str) -> None:
    """The sabotage of the test above: it is the privileged container that attaches."""
    site.apply(kubernetes_objects.scheduler_daemon_set("powerless", fifo, privileged=False))

    site.until(lambda: site.last_words("powerless") != "", "the scheduler has ended")

    assert "load failed: Operation not permitted" in site.last_words("powerless")
    assert polling.stays_untrue(lambda: site.state() != "disabled", for_s=3)


@pytest.mark.full
@pytest.mark.timeout(2400)
def test_a_daemonset_runs_on_two_nodes_with_kernels_of_their_own(site: Site, fifo: str) -> None:
    second = Node(site.cluster, site.images, kernels.obtain("7"), index=2)
    with node.running(second):
        site.apply(kubernetes_objects.scheduler_daemon_set("fifo", fifo))
        site.until(lambda: _states(site.node, second) == {"enabled"}, "both kernels are enabled")

        pods = site.pods_of("fifo")
        assert {pod["spec"]["nodeName"] for pod in pods} == {site.node.name, second.name}
        assert len({pod["status"]["podIP"] for pod in pods}) == 2

        site.cluster.client.delete(f"/apis/apps/v1/namespaces/{site.namespace}/daemonsets/fifo")
        site.until(lambda: _states(site.node, second) == {"disabled"}, "both kernels are disabled")
    site.cluster.client.delete(f"/api/v1/nodes/{second.name}")


def _states(*nodes: Node) -> set[str]:
    return {each.read("/sys/kernel/sched_ext/state") for each in nodes}
