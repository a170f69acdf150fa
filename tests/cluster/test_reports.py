"""Reports of nodes: who may write which, and what an agent writes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from rig.base import polling
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes, node_object
from rig.cluster.kubeclient import JSON_PATCH, ApiError, Client, JsonObject
from rig.operator import agents
from rig.operator.agents import REPORTS
from schedkit.kube.access import config
from schedkit.kube.direct import DirectClient
from schedkit.model.api.schedextnode import SchedExtNodeStatus
from schedkit.sked.agent.identity import place_of_token
from schedkit.sked.agent.reporter import Reporter

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
    # managers of other tests would wait for the reports of these agents
    pods = f"/api/v1/namespaces/{agents.NAMESPACE}/pods"
    cluster.client.delete(pods, {"gracePeriodSeconds": 0})
    polling.until(lambda: not cluster.client.items(pods), "no agent is left")
    # and they write reports themselves
    cluster.client.delete(_POLICY)
    polling.until(lambda: not cluster.client.refusal(REPORTS, report(cluster, mine)), "no policy is left")


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


def test_a_living_agent_follows_its_node_when_that_is_made_anew(
    cluster: ControlPlane, installed: tuple[str, str]
) -> None:
    """The pod lives on, and the kubelet's next token names the new Node."""
    assert installed
    made = cluster.client.create("/api/v1/nodes", node_object("anew", 1))["metadata"]
    node, old = made["name"], made["uid"]
    file = agents.TokenFile(cluster, node)
    connection = config.discover(file.kubeconfig, context=None)

    def reported() -> str:
        found = cluster.client.find(f"{REPORTS}/{node}")
        return str(found["status"]["nodeUID"]) if found else ""

    async def scenario() -> None:
        place = place_of_token(await connection.credentials.token())
        reporter = Reporter(DirectClient(connection, "sked/1 agent"), place, read_again_s=0.5)
        reporter.want(SchedExtNodeStatus(node_uid=old, state="disabled"))
        work = asyncio.ensure_future(reporter.run())
        await eventually(lambda: reported() == old)
        cluster.client.delete(f"/api/v1/nodes/{node}")
        new = cluster.client.create("/api/v1/nodes", node_object("anew", 1))["metadata"]["uid"]
        file.renew()
        await eventually(lambda: reported() == new)
        work.cancel()

    try:
        asyncio.run(scenario())
        (owner,) = cluster.client.get(f"{REPORTS}/{node}")["metadata"]["ownerReferences"]
        assert owner["uid"] not in {old, ""}
    finally:
        # nobody ends pods there: they would keep namespaces of other tests, and their SchedExts, for ever
        cluster.client.delete(f"/api/v1/nodes/{node}")


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - the API server tells nobody
            await asyncio.sleep(0.2)


def test_an_agents_metrics_are_for_those_who_may_read_them(
    cluster: ControlPlane, installed: tuple[str, str]
) -> None:
    _, node = installed
    agents.install_metrics(cluster)
    with agents.running(cluster, node, has_metrics=True) as agent:
        polling.until(lambda: agent.scrape(None)[0], "metrics are served")
        token = cluster.token(agents.NAMESPACE, "somebody")
        stranger = cluster.token("default", "default")

        assert agent.scrape(None)[0] == 401
        assert agent.scrape("a.wrong.token")[0] == 401
        assert agent.scrape(stranger)[0] == 403
        since = cluster.audit_log.position()
        pages = [agent.scrape(token) for _ in range(5)]
        reviews = [
            list(cluster.audit(since=since, resource=each))
            for each in ("tokenreviews", "subjectaccessreviews")
        ]

    assert {code for code, _ in pages} == {200}
    assert "sked_node_state{" in pages[0][1]
    assert [len(each) for each in reviews] == [1, 1]
