"""What the control plane refuses, as a production cluster would."""

from __future__ import annotations

import pytest

from rig.base import polling
from rig.builders import kubernetes_objects
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes
from rig.cluster.kubeclient import ApiError, Client, JsonObject


def test_a_default_service_account_reads_its_own_identity_and_no_nodes(
    cluster: ControlPlane, namespace: str
) -> None:
    pod_client = cluster.service_account(namespace)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    answer = pod_client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert answer["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"

    with pytest.raises(ApiError, match='cannot list resource "nodes"') as refused:
        pod_client.get("/api/v1/nodes")
    assert refused.value.status == 403


def test_a_restricted_namespace_refuses_a_privileged_pod_and_takes_a_harmless_one(
    cluster: ControlPlane, namespace: str
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.client.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": label}})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    privileged = kubernetes_objects.pod("bad", privileged=True, allowPrivilegeEscalation=True)

    refusal = polling.until(lambda: cluster.client.refusal(pods, privileged), "the pod is refused")

    assert refusal.status == 403
    assert 'violates PodSecurity "restricted:latest": privileged' in refusal.message
    assert cluster.client.refusal(pods, kubernetes_objects.pod("good")) is None


def test_a_validating_admission_policy_refuses_what_its_expression_refuses(
    cluster: ControlPlane, namespace: str
) -> None:
    cluster.apply(*_policy_against_the_name_forbidden(namespace))
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    # a new policy takes effect a moment after it was accepted
    refusal = polling.until(
        lambda: cluster.client.refusal(path, kubernetes_objects.config_map("forbidden")),
        "the name is refused",
    )

    assert "nobody may be called that" in refusal.message
    assert cluster.client.refusal(path, kubernetes_objects.config_map("allowed")) is None


def _policy_against_the_name_forbidden(namespace: str) -> tuple[JsonObject, JsonObject]:
    group = "admissionregistration.k8s.io/v1"
    resources = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    own_namespace = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    rule = {"expression": "object.metadata.name != 'forbidden'", "message": "nobody may be called that"}
    policy = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {"matchConstraints": {"resourceRules": [resources]}, "validations": [rule]},
    }
    binding = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {
            "policyName": namespace,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": own_namespace},
        },
    }
    return policy, binding


def test_only_who_may_set_finalizers_on_an_owner_may_let_it_wait_for_what_it_owns(
    cluster: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = cluster.client.create(path, kubernetes_objects.config_map("owner"))
    owned, user = _owned_by(owner), f"writer-{namespace}"
    writer = Client(cluster.user(user))

    create = {"configmaps": ["create"]}
    cluster.apply(
        kubernetes_objects.role("writer", create),
        kubernetes_objects.role_binding("writer", user=user),
        namespace=namespace,
    )
    polling.until(
        lambda: not writer.refusal(path, kubernetes_objects.config_map("free")), "the user may create objects"
    )
    refusal = writer.refusal(path, owned)
    assert refusal is not None
    assert "refers to a resource you can't set finalizers on" in refusal.message

    cluster.apply(
        kubernetes_objects.role("writer", create | {"configmaps/finalizers": ["update"]}), namespace=namespace
    )
    polling.until(lambda: not writer.refusal(path, owned), "the user may create owned objects")


def _owned_by(owner: JsonObject) -> JsonObject:
    meta = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
    owned = kubernetes_objects.config_map("owned")
    owned["metadata"]["ownerReferences"] = [reference | {"blockOwnerDeletion": True}]
    return owned


def test_a_kubelet_may_not_write_to_another_node(cluster: ControlPlane, fake_nodes: FakeNodes) -> None:
    mine, other = fake_nodes.names[:2]
    kubelet = Client(cluster.user(f"system:node:{mine}", group="system:nodes"))
    change = {"metadata": {"annotations": {"example.com/seen": "true"}}}

    assert (
        kubelet.patch(f"/api/v1/nodes/{mine}", change)["metadata"]["annotations"]["example.com/seen"]
        == "true"
    )

    with pytest.raises(ApiError, match="is not allowed to modify node") as refused:
        kubelet.patch(f"/api/v1/nodes/{other}", change)
    assert refused.value.status == 403
