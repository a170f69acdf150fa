"""A guest is a real node: it pulls, runs, answers for its pods, and its kernel obeys a DaemonSet."""

from __future__ import annotations

import json

import pytest

from rig import images
from rig.kubeclient import JsonObject
from rig.schedulers import catalog

from .conftest import Site

RESTRICTED: JsonObject = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
PULL_FAILED = {"ErrImagePull", "ImagePullBackOff"}


def probe_pod(name: str, image: str, *arguments: str) -> JsonObject:
    """A pod that meets the `restricted` Pod Security standard."""
    container = {"name": "probe", "image": image, "args": list(arguments), "securityContext": RESTRICTED}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }


@pytest.fixture
def probe(site: Site) -> str:
    """The probe's image by digest, under the one name that host, node and pods share."""
    digest = site.images.client.push(images.probe(), "rig/probe", "1")
    return f"{site.images.named_host}/rig/probe@{digest}"


def test_a_restricted_pod_reads_the_api_with_its_own_token(site: Site, probe: str) -> None:
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    site.cluster.client.patch(f"/api/v1/namespaces/{site.namespace}", enforce)
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


def test_without_the_registry_a_new_image_cannot_be_pulled(site: Site) -> None:
    digest = site.images.client.push(images.scheduler("alias"), "rig/unpulled", "1")
    site.images.stop()
    try:
        site.apply(probe_pod("stuck", f"{site.images.named_host}/rig/unpulled@{digest}"))

        site.until(lambda: site.waiting_reason("stuck") in PULL_FAILED, "the pull has failed")
    finally:
        site.images.start()


def test_a_daemonset_attaches_its_scheduler_and_its_deletion_detaches_it(site: Site) -> None:
    digest = site.images.client.push(images.scheduler("fifo"), "rig/fifo", "1")
    image = f"{site.images.named_host}/rig/fifo@{digest}"
    assert site.state() == "disabled"

    site.apply(privileged_daemonset("fifo", image))

    site.until(lambda: site.state() == "enabled", "the kernel is enabled")
    assert site.node.read("/sys/kernel/sched_ext/root/ops") == catalog()["fifo"].ops_name

    site.cluster.client.delete(f"/apis/apps/v1/namespaces/{site.namespace}/daemonsets/fifo")

    site.until(lambda: site.state() == "disabled", "the kernel is disabled")


def privileged_daemonset(name: str, image: str) -> JsonObject:
    """The shape of what sked makes."""
    container = {"name": "scx", "image": image, "securityContext": {"privileged": True}}
    template = {"metadata": {"labels": {"name": name}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"name": name}}, "template": template},
    }
