"""Reports of nodes: who may write which, and what an agent writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

from rig.base import polling
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes, node_object
from rig.cluster.kubeclient import JSON_PATCH, ApiError, Client, JsonObject
from rig.operator import agents
from rig.operator.agents import REPORTS

_POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/sked-schedextnodes"


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane, fake_nodes: FakeNodes) -> Iterator[tuple[str, str]]:
    """Two nodes of a cluster in which agents may report; the policy is in force."""
    agents.install(cluster)
    accounts = f"/api/v1/namespaces/{agents.NAMESPACE}/serviceaccounts"
    cluster.client.create(accounts, {"metadata": {"name": "somebody"}})
    cluster.apply(_everything("somebody"))
    mine, other = fake_nodes.names[:2]
    polling.until(lambda: cluster.client.refusal(REPORTS, report(cluster, mine)), "the policy is in force")
    yield mine, other
    for each in cluster.client.items(REPORTS):
        cluster.client.delete(f"{REPORTS}/{each['metadata']['name']}")


def _everything(account: str) -> JsonObject:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"sked-node-{account}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": agents.NAMESPACE}],
    }


def report(cluster: ControlPlane, node: str, **status: object) -> JsonObject:
    """A report about that node, as its agent would write it."""
    uid = cluster.client.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    said = {"nodeUID": uid, "state": "disabled", "owner": {"kind": "None"}, **status}
    kind = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExtNode"}
    return {**kind, "metadata": {"name": node, "ownerReferences": [owner]}, "status": said}


def refused(client: Client, body: JsonObject) -> str:
    """What the server says to a report that is new; empty: it was taken."""
    try:
        client.create(REPORTS, body)
    except ApiError as refusal:
        return f"{refusal.status} {refusal.message}"
    return ""


def change(client: Client, node: str, field: str, value: str) -> JsonObject:
    """Another answer in a report that is there."""
    patch = [{"op": "add", "path": f"/status/{field}", "value": value}]
    return client.patch(f"{REPORTS}/{node}", patch, kind=JSON_PATCH)


def test_an_agent_writes_the_report_of_its_own_node_and_no_other(
    cluster: ControlPlane, installed: tuple[str, str]
) -> None:
    mine, other = installed
    own = agents.client_on(cluster, mine)

    assert refused(own, report(cluster, mine)) == ""
    assert "its own node alone" in refused(own, report(cluster, other))
    assert change(own, mine, "state", "enabled")["status"]["state"] == "enabled"
    with pytest.raises(ApiError, match="its own node alone"):
        change(agents.client_on(cluster, other), mine, "state", "disabled")
    stuck = {"metadata": {"finalizers": ["example.com/stays"], "annotations": {"much": "text"}}}
    with pytest.raises(ApiError, match="its own node alone"):
        agents.client_on(cluster, other).patch(f"{REPORTS}/{mine}", stuck)
    with pytest.raises(ApiError, match="must name the UID of the node"):
        change(own, mine, "nodeUID", "of a node that had this name before")


def test_neither_a_token_without_a_node_nor_another_account_writes_a_report(
    cluster: ControlPlane, installed: tuple[str, str]
) -> None:
    _, other = installed
    nowhere = cluster.service_account(agents.NAMESPACE, agents.ACCOUNT)

    assert "its own node alone" in refused(nowhere, report(cluster, other))
    assert "only the agent" in refused(agents.client_on(cluster, other, "somebody"), report(cluster, other))
    assert "only the agent" in refused(cluster.client, report(cluster, other))


def test_it_is_the_policy_that_refuses(cluster: ControlPlane, installed: tuple[str, str]) -> None:
    mine, other = installed
    binding = cluster.client.get(_POLICY)
    cluster.client.delete(_POLICY)
    try:
        client = agents.client_on(cluster, mine)
        polling.until(lambda: not refused(client, report(cluster, other)), "the forged report is taken")
    finally:
        cluster.client.delete(f"{REPORTS}/{other}")
        name = {"name": binding["metadata"]["name"]}
        cluster.client.create(_POLICY.rpartition("/")[0], {**binding, "metadata": name})
    # nothing is really created here: a report that is there already would be refused as well
    polling.until(lambda: client.refusal(REPORTS, report(cluster, other)), "the policy is in force again")


def test_a_write_that_changes_nothing_passes_for_anybody(
    cluster: ControlPlane, installed: tuple[str, str]
) -> None:
    mine, _ = installed
    refused(agents.client_on(cluster, mine), report(cluster, mine))  # unless it is there already
    there = cluster.client.get(f"{REPORTS}/{mine}")

    assert cluster.client.replace(f"{REPORTS}/{mine}", there)["status"] == there["status"]
    with pytest.raises(ApiError, match="only the agent"):
        change(cluster.client, mine, "state", "absent")


def test_a_deleted_node_takes_its_report_along(cluster: ControlPlane, installed: tuple[str, str]) -> None:
    assert installed
    node: str = cluster.client.create("/api/v1/nodes", node_object("leaving", 1))["metadata"]["name"]
    assert refused(agents.client_on(cluster, node), report(cluster, node)) == ""

    cluster.client.delete(f"/api/v1/nodes/{node}")

    polling.until(lambda: cluster.client.find(f"{REPORTS}/{node}") is None, "the report is gone")


def test_a_node_whose_report_is_to_stay_can_be_deleted(
    cluster: ControlPlane, installed: tuple[str, str]
) -> None:
    """The garbage collector first takes the owner out of the report: refused, it would keep the Node."""
    assert installed
    node: str = cluster.client.create("/api/v1/nodes", node_object("orphaning", 1))["metadata"]["name"]
    assert refused(agents.client_on(cluster, node), report(cluster, node)) == ""

    cluster.client.delete(f"/api/v1/nodes/{node}", {"propagationPolicy": "Orphan"})

    polling.until(lambda: cluster.client.find(f"/api/v1/nodes/{node}") is None, "the Node is gone")
    assert "ownerReferences" not in cluster.client.get(f"{REPORTS}/{node}")["metadata"]


def test_an_agent_reports_this_machines_kernel_and_writes_nothing_more(
    cluster: ControlPlane, installed: tuple[str, str]
) -> None:
    _, node = installed
    with agents.running(cluster, node) as agent:
        said = agent.report()
        since = cluster.audit_log.position()
        assert said["kernel"]["release"] == os.uname().release
        asked = partial(cluster.audit, since=since, resource="schedextnodes")
        assert polling.stays_untrue(lambda: list(asked()), for_s=7)
