"""What an agent's pod may do on its node, and where it runs: no more, and nowhere less, than it has to."""

from __future__ import annotations

from pathlib import Path

import yaml

from rig.operator.reportstore import COLLECTION, JsonObject
from schedkit.sked.kinds import SCHEDEXT_NODES

AGENT = Path(__file__).parents[3] / "config/agent"
ACCOUNT, NAMESPACE = "sked-node-agent", "sked-node"


def objects(file: str) -> list[JsonObject]:
    return list(yaml.safe_load_all((AGENT / file).read_text()))


def daemon_set() -> JsonObject:
    spec: JsonObject = objects("daemonset.yaml")[0]["spec"]
    return spec


def pod() -> JsonObject:
    spec: JsonObject = daemon_set()["template"]["spec"]
    return spec


def test_a_pod_mounts_nothing_of_its_node_and_is_not_in_its_network() -> None:
    (container,) = pod()["containers"]

    assert "volumes" not in pod()
    assert "volumeMounts" not in container
    assert [word for word in ("hostNetwork", "hostIPC", "initContainers") if word in pod()] == []


def test_a_pod_is_not_privileged_and_has_the_capabilities_that_it_needs_alone() -> None:
    (container,) = pod()["containers"]
    security = container["securityContext"]

    assert "privileged" not in security
    assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE", "SYSLOG", "SYS_ADMIN"]}
    assert security["appArmorProfile"] == {"type": "Unconfined"}
    assert security["seLinuxOptions"] == {"type": "spc_t"}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}


def test_agents_are_on_every_linux_node_with_a_kernel_of_its_own_and_are_replaced_a_few_at_a_time() -> None:
    (term,) = pod()["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]

    assert pod()["tolerations"] == [{"operator": "Exists"}]
    assert pod()["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert {each["key"]: each["operator"] for each in term["matchExpressions"]} == {
        "kubernetes.io/arch": "In",
        "type": "NotIn",
        "eks.amazonaws.com/compute-type": "NotIn",
    }
    assert daemon_set()["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}


def test_a_pod_of_that_priority_is_let_into_its_namespace() -> None:
    (quota,) = objects("quota.yaml")
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]

    assert scope["values"] == [pod()["priorityClassName"]]


def test_everything_is_about_the_same_account() -> None:
    policy, _ = objects("policy.yaml")
    (binding,), (flow,) = objects("role_binding.yaml"), objects("flow_schema.yaml")
    words = [each["expression"] for each in policy["spec"]["validations"]]

    assert pod()["serviceAccountName"] == ACCOUNT
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]
    assert flow["spec"]["rules"][0]["subjects"][0]["serviceAccount"] == {
        "name": ACCOUNT,
        "namespace": NAMESPACE,
    }
    assert f"variables.account == 'system:serviceaccount:{NAMESPACE}:{ACCOUNT}'" in words


def test_policy_flow_and_reporter_are_about_the_same_resource() -> None:
    policy, binding = objects("policy.yaml")
    (flow,) = objects("flow_schema.yaml")
    rules = [
        policy["spec"]["matchConstraints"]["resourceRules"][0],
        flow["spec"]["rules"][0]["resourceRules"][0],
    ]

    assert [(each["apiGroups"], each["resources"]) for each in rules] == [
        ([SCHEDEXT_NODES.group], [SCHEDEXT_NODES.plural])
    ] * 2
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert SCHEDEXT_NODES.path() == COLLECTION


def test_deleting_is_left_to_rbac_so_that_a_deleted_node_takes_its_report_along() -> None:
    policy, _ = objects("policy.yaml")

    assert policy["spec"]["matchConstraints"]["resourceRules"][0]["operations"] == ["CREATE", "UPDATE"]
    assert policy["spec"]["failurePolicy"] == "Fail"
