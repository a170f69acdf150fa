"""Pods that cannot run: a manager says why in the documented words, and takes it back when they can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rig.base import polling
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.operator import manager, scenes
from rig.operator.manager import Manager, SchedExts

LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture(scope="module", autouse=True)
def nodes(cluster: ControlPlane) -> Iterator[scenes.Nodes]:
    with scenes.nodes(cluster, "trouble") as label:
        yield label


@pytest.fixture(scope="module", autouse=True)
def sked(cluster: ControlPlane, nodes: scenes.Nodes) -> Iterator[Manager]:
    assert nodes
    with manager.running(cluster, "sked-in-trouble") as running:
        yield running


@pytest.fixture
def schedexts(cluster: ControlPlane, namespace: str) -> SchedExts:
    return SchedExts(cluster, namespace)


@dataclass(frozen=True)
class Trouble:
    """What a kubelet says about a container that cannot run, and what becomes of it."""

    reason: str
    words: str
    state: JsonObject
    last: JsonObject | None = None


_ENDED = {"exitCode": 1, "reason": "Error", "startedAt": LONG_AGO, "finishedAt": LONG_AGO}
TROUBLES = [
    Trouble(
        "ImagePullFailed",
        "the image cannot be pulled: not found",
        {
            "waiting": {
                "reason": "ImagePullBackOff",
                "message": 'Back-off pulling "x": ErrImagePull: not found',
            }
        },
    ),
    Trouble(
        "Crashing",
        "the scheduler ended (exit code 1); the end of its output: libbpf: prog 'x': -EINVAL / attach failed",
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}},
        {**_ENDED, "message": "libbpf: prog 'x': -EINVAL\nattach failed\n"},
    ),
    Trouble(
        "ContainerRefused",
        'the container cannot be started: secret "s" not found',
        {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}},
    ),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.reason)
def test_a_container_that_cannot_run_is_reported_until_it_runs(
    cluster: ControlPlane, schedexts: SchedExts, nodes: scenes.Nodes, trouble: Trouble
) -> None:
    schedexts.create(nodeSelector=nodes)
    schedexts.await_reason("Deployed", "PodsSettled")
    ill = min(schedexts.pods(), key=lambda pod: str(pod["spec"]["nodeName"]))
    node = ill["spec"]["nodeName"]

    say_of_container(cluster, ill, trouble.state, trouble.last)

    found = schedexts.await_reason("Deployed", trouble.reason)
    assert found["message"] == f"1 of 2 nodes, such as {node}: {trouble.words}"
    status = schedexts.status()
    assert status["worstNodes"] == [{"name": node, "reason": trouble.reason, "message": trouble.words}]
    assert (status["nodes"]["failed"], status["nodes"]["unknown"]) == (1, 1)
    assert schedexts.condition("Ready")["status"] == "False"

    say_of_container(cluster, ill, {"running": {"startedAt": LONG_AGO}}, trouble.last)
    schedexts.await_reason("Deployed", "PodsSettled")
    assert "worstNodes" not in schedexts.status()


def say_of_container(
    cluster: ControlPlane, pod: JsonObject, state: JsonObject, last: JsonObject | None
) -> None:
    """As the node's kubelet would."""
    meta, (before,) = pod["metadata"], pod["status"]["containerStatuses"]
    said = {**before, "ready": "running" in state, "state": state}
    if last is not None:
        said |= {"lastState": {"terminated": last}, "restartCount": 1}
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
    cluster.client.patch(path, {"status": {"containerStatuses": [said]}})


def test_pods_that_pod_security_refuses_are_reported_until_it_lets_them_pass(
    cluster: ControlPlane, schedexts: SchedExts, nodes: scenes.Nodes
) -> None:
    enforce(cluster, schedexts, "baseline")
    schedexts.create(nodeSelector=nodes)

    found = schedexts.await_reason("Deployed", "PodsRefused")
    assert 'violates PodSecurity "baseline:latest": privileged' in found["message"]
    assert schedexts.status()["nodes"]["failed"] == 2

    enforce(cluster, schedexts, "privileged")
    schedexts.change(args=["--again"])  # its controller waits ever longer between attempts, unless it changes
    schedexts.await_reason("Deployed", "PodsSettled", timeout_s=60)


def enforce(cluster: ControlPlane, schedexts: SchedExts, profile: str) -> None:
    label = {"pod-security.kubernetes.io/enforce": profile}
    cluster.client.patch(f"/api/v1/namespaces/{schedexts.namespace}", {"metadata": {"labels": label}})


def test_privileges_taken_by_a_mutating_policy_are_reported_until_they_are_left_alone(
    cluster: ControlPlane, schedexts: SchedExts, nodes: scenes.Nodes
) -> None:
    strip_privileges(cluster, schedexts.namespace)
    schedexts.create(nodeSelector=nodes)

    found = schedexts.await_reason("Deployed", "PrivilegesRemoved")
    assert "an admission policy removed the container's privileges: exempt this namespace" in found["message"]

    cluster.client.delete(f"{POLICIES}/mutatingadmissionpolicybindings/{schedexts.namespace}")

    def all_have_them() -> bool:
        """Once each pod that lacks them was deleted, and made anew by its DaemonSet."""
        stripped = [pod for pod in schedexts.pods() if not is_privileged(pod)]
        for pod in stripped:
            cluster.client.delete(f"/api/v1/namespaces/{schedexts.namespace}/pods/{pod['metadata']['name']}")
        return not stripped

    polling.until(all_have_them, "no pod is stripped any more", poll_s=1)
    schedexts.await_reason("Deployed", "PodsSettled", timeout_s=60)


POLICIES = "/apis/admissionregistration.k8s.io/v1"


def is_privileged(pod: JsonObject) -> bool:
    return bool(pod["spec"]["containers"][0]["securityContext"].get("privileged"))


def strip_privileges(cluster: ControlPlane, namespace: str) -> None:
    """From pods in that namespace, as a hardened cluster might; returns when it is in force."""
    meta = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": namespace}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    path = '"/spec/containers/0/securityContext/privileged"'
    patch = f'[JSONPatch{{op: "replace", path: {path}, value: false}}]'
    own = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    policy = {
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [pods], **own},
        "matchConditions": [{"name": "privileged", "expression": IS_PRIVILEGED}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    binding = {"policyName": namespace, "matchResources": own}
    cluster.apply(
        {**meta, "kind": "MutatingAdmissionPolicy", "spec": policy},
        {**meta, "kind": "MutatingAdmissionPolicyBinding", "spec": binding},
    )
    polling.until(lambda: not is_privileged(tried(cluster, namespace)), "the policy is in force")


IS_PRIVILEGED = "object.spec.containers[0].?securityContext.?privileged.orValue(false) == true"


def tried(cluster: ControlPlane, namespace: str) -> JsonObject:
    """A privileged pod as the API server would store it."""
    container = {"name": "x", "image": "x", "securityContext": {"privileged": True}}
    pod = {"metadata": {"name": "tried"}, "spec": {"containers": [container]}}
    return cluster.client.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)


def test_pods_that_fit_on_no_node_are_reported_until_they_ask_for_less(
    schedexts: SchedExts, nodes: scenes.Nodes
) -> None:
    schedexts.create(nodeSelector=nodes, resources={"requests": {"cpu": "1000"}})

    found = schedexts.await_reason("Deployed", "PodPending")
    assert "the pod is pending: " in found["message"]
    assert "Insufficient cpu" in found["message"]
    assert schedexts.status()["nodes"]["starting"] == 2

    schedexts.change(resources=None)
    schedexts.await_reason("Deployed", "PodsSettled", timeout_s=60)
