"""`sked manager` as a process, on a real control plane with fake nodes: what users and their objects see."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rig.base import polling
from rig.builders import kubernetes_objects
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes
from rig.cluster.kubeclient import JsonObject
from rig.operator import manager
from rig.operator.manager import IMAGE, Manager, SchedExts
from schedkit import __version__

NODES = 3
NEEDS = "sked.schedkit.io/needs"
HAND_EDIT = {"hostPID": True}  # of a field that sked puts back
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


@pytest.fixture
def nowhere(namespace: str) -> dict[str, str]:
    """A label of no node, and of no other test: rivals are told about each other."""
    return {"sked": namespace}


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

    def runs_v2() -> bool:
        """For a moment nothing runs: all nodes are changed at once."""
        return str(schedexts.status().get("image", "")).startswith("ghcr.io/schedkit/scx_rusty:v2@")

    polling.until(runs_v2, "v2 runs")
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


def test_probes_say_that_it_lives_and_is_current(sked: Manager) -> None:
    assert sked.probe("/healthz") == (200, "ok\n")
    assert sked.probe("/readyz") == (200, "ok\n")
    assert sked.probe("/elsewhere")[0] == 404


def test_metrics_are_for_those_who_may_read_them(
    cluster: ControlPlane, sked: Manager, namespace: str, schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    schedexts.create(nodeSelector=nowhere)
    schedexts.await_reason("Deployed", "NoNodes")
    reader = cluster.token(namespace)
    assert sked.scrape()[0] == 401
    assert sked.scrape("not-a-token")[0] == 401
    code, words = sked.scrape(reader)
    assert (code, "may not get /metrics" in words) == (403, True)

    _let_read_metrics(cluster, namespace)

    def page() -> str | None:
        code, words = sked.scrape(reader)
        return words if code == 200 else None

    shown = polling.until(page, "the reader is let in")
    assert 'sked_api_requests_total{code="201",verb="POST"}' in shown
    assert 'sked_schedexts{state="NoNodes"}' in shown
    assert f'sked_schedext_nodes{{bucket="attached",name="scx",namespace="{namespace}"}} 0.0' in shown
    assert 'sked_reconciles_total{controller="daemonsets",outcome="done"}' in shown
    assert f'sked_build_info{{python="{platform.python_version()}",version="{__version__}"}} 1.0' in shown
    assert 'sked_watch_age_seconds{resource="nodes"}' in shown
    assert 'sked_queue_depth{controller="status"}' in shown
    assert reader not in sked.log()


def test_a_flood_of_wrong_tokens_costs_the_api_server_little_and_shuts_no_reader_out(
    cluster: ControlPlane, sked: Manager, namespace: str
) -> None:
    reader = cluster.token(namespace)
    _let_read_metrics(cluster, namespace)
    polling.until(lambda: sked.scrape(reader)[0] == 200, "the reader is let in")

    codes: Counter[int] = Counter()
    with ThreadPoolExecutor(20) as strangers:

        def are_turned_away() -> bool:
            """Where the manager is slow, one flood may be a brook."""
            codes.update(strangers.map(lambda number: sked.scrape(f"wrong-{number}")[0], range(200)))
            return codes[503] > 0

        polling.until(are_turned_away, "strangers are turned away without a question to the API server")

    assert set(codes) == {401, 503}
    assert sked.scrape(reader)[0] == 200
    assert sked.scrape("no-letters-\xff")[0] == 401


def _let_read_metrics(cluster: ControlPlane, namespace: str) -> None:
    """Let that namespace's default service account do so."""
    group = "rbac.authorization.k8s.io"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    meta = {"apiVersion": f"{group}/v1", "metadata": {"name": namespace}}
    cluster.apply(
        {**meta, "kind": "ClusterRole", "rules": rules},
        {
            **meta,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": namespace},
            "subjects": [subject],
        },
    )


def test_a_hand_edited_field_of_ours_is_put_back_and_another_is_left_alone(
    schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    schedexts.create(nodeSelector=nowhere, args=["--fast"])
    schedexts.await_daemon_set()

    container = {"name": "scx", "image": IMAGE, "args": ["--slow"], "stdin": True}
    pod = {"nodeSelector": {"mine": "too"}, "dnsPolicy": "Default", "containers": [container]}
    schedexts.edit_daemon_set(
        {"metadata": {"annotations": {"example.com/note": "hello"}}, "spec": {"template": {"spec": pod}}}
    )

    def pod_spec() -> JsonObject:
        spec: JsonObject = (schedexts.daemon_set() or {})["spec"]["template"]["spec"]
        return spec

    polling.until(lambda: pod_spec()["nodeSelector"] == nowhere, "the selector is ours again")
    assert pod_spec()["containers"][0]["args"] == ["--fast"]
    assert pod_spec()["containers"][0]["stdin"]
    assert pod_spec()["dnsPolicy"] == "Default"
    assert (schedexts.daemon_set() or {})["metadata"]["annotations"]["example.com/note"] == "hello"


def test_our_label_is_put_back_although_no_watch_shows_a_daemon_set_without_it(
    schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    schedexts.create(nodeSelector=nowhere)
    uid = schedexts.await_daemon_set()["metadata"]["uid"]

    schedexts.edit_daemon_set({"metadata": {"labels": {"managed-by": "somebody"}}})

    def labels() -> JsonObject:
        found: JsonObject = (schedexts.daemon_set() or {})["metadata"]["labels"]
        return found

    polling.until(lambda: labels()["managed-by"] == "sked-controller", "the label is ours again")
    assert (schedexts.daemon_set() or {})["metadata"]["uid"] == uid


def test_a_removed_field_is_removed_with_one_write(
    cluster: ControlPlane, sked: Manager, schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    schedexts.create(nodeSelector=nowhere, priorityClassName="system-node-critical", args=["--fast"])
    schedexts.await_reason("Deployed", "NoNodes")
    since = cluster.audit_log.position()

    schedexts.change(priorityClassName=None, args=None)

    polling.until(lambda: schedexts.condition("Deployed")["observedGeneration"] == 2, "it is reported")
    spec = (schedexts.daemon_set() or {})["spec"]["template"]["spec"]
    assert "priorityClassName" not in spec
    assert "args" not in spec["containers"][0]
    writes = _writes(cluster, sked, since, schedexts.namespace)
    assert writes == [("patch", "daemonsets"), ("update", "schedexts/status")]


def _writes(cluster: ControlPlane, by: Manager, since: int, namespace: str) -> list[tuple[str, str]]:
    """What the manager wrote there, beside events."""
    events = cluster.audit(since=since, user=by.name, namespace=namespace)
    reading = {"get", "list", "watch"}
    return [
        (each.verb, each.resource)
        for each in events
        if each.verb not in reading and each.resource != "events"
    ]


def test_when_all_is_as_it_should_be_nothing_is_written(
    cluster: ControlPlane, sked: Manager, schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    schedexts.create(nodeSelector=nowhere)
    schedexts.await_reason("Deployed", "NoNodes")
    made = schedexts.get()
    since = cluster.audit_log.position()

    # an annotation makes it look again, at both
    schedexts.annotate(note="look")
    schedexts.edit_daemon_set({"metadata": {"annotations": {"example.com/note": "look"}}})

    assert polling.stays_untrue(lambda: _writes(cluster, sked, since, schedexts.namespace), for_s=4), (
        "it wrote something"
    )
    assert schedexts.status() == made["status"]


def test_what_a_newer_manager_made_is_left_alone_until_the_word_is_gone(
    schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    """As after the operator was rolled back."""
    schedexts.create(nodeSelector=nowhere)
    schedexts.await_reason("Deployed", "NoNodes")
    theirs = {
        "metadata": {"annotations": {NEEDS: "claims, pools"}},
        "spec": {"template": {"spec": HAND_EDIT}},
    }
    edited = schedexts.edit_daemon_set(theirs)
    told = schedexts.await_reason("Accepted", "NewerManagerNeeded")
    assert told["status"] == "False"
    assert "claims, pools" in told["message"]
    assert "upgrade the operator" in told["message"]

    schedexts.change(suspend=True)
    polling.until(lambda: schedexts.condition("Accepted")["observedGeneration"] == 2, "the change is seen")
    assert schedexts.daemon_set() is not None
    assert _spec_of(schedexts.await_daemon_set()) == _spec_of(edited)
    assert schedexts.condition("Ready")["status"] == "Unknown"

    schedexts.annotate(**{NEEDS: "tomorrow"})
    schedexts.edit_daemon_set({"metadata": {"annotations": {NEEDS: None}}})
    polling.until(
        lambda: "does not know tomorrow:" in schedexts.condition("Accepted")["message"],
        "the SchedExt's own word is told",
    )
    schedexts.delete()
    polling.until(lambda: schedexts.daemon_set() is None, "its owner takes the DaemonSet along")

    schedexts.create("later", nodeSelector=nowhere, annotations={NEEDS: "tomorrow"})
    schedexts.await_reason("Accepted", "NewerManagerNeeded", "later")
    assert schedexts.daemon_set("later") is None
    schedexts.annotate("later", **{NEEDS: ""})
    schedexts.await_daemon_set("later")


def _spec_of(daemon_set: JsonObject) -> JsonObject:
    spec: JsonObject = daemon_set["spec"]
    return spec


def test_a_daemon_set_of_somebody_else_is_never_taken_over_and_made_when_it_is_gone(
    cluster: ControlPlane, schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    path = f"/apis/apps/v1/namespaces/{schedexts.namespace}/daemonsets"
    theirs = cluster.client.create(path, kubernetes_objects.daemon_set("scx", nodes=nowhere))

    schedexts.create(nodeSelector=nowhere)

    taken = schedexts.await_reason("Accepted", "NameTaken")
    assert "has no owner: delete the DaemonSet, or give the SchedExt another name" in taken["message"]
    assert cluster.client.get(f"{path}/scx")["spec"] == theirs["spec"]

    cluster.client.delete(f"{path}/scx")
    schedexts.await_reason("Accepted", "Accepted", timeout_s=60)
    assert schedexts.await_daemon_set()["metadata"]["ownerReferences"][0]["kind"] == "SchedExt"


def test_a_refused_daemon_set_is_reported_and_made_when_it_may_be(
    cluster: ControlPlane, schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    quotas = f"/api/v1/namespaces/{schedexts.namespace}/resourcequotas"
    none = {"metadata": {"name": "none"}, "spec": {"hard": {"count/daemonsets.apps": "0"}}}
    cluster.client.create(quotas, none)
    polling.until(
        lambda: "hard" in cluster.client.get(f"{quotas}/none").get("status", {}), "the quota counts"
    )

    schedexts.create(nodeSelector=nowhere)

    found = schedexts.await_reason("Accepted", "DaemonSetRefused")
    assert "exceeded quota: none" in found["message"]
    cluster.client.delete(f"{quotas}/none")
    schedexts.await_reason("Accepted", "Accepted", timeout_s=60)
    schedexts.await_daemon_set()


def test_a_webhook_that_is_down_is_named_until_it_is_gone(
    cluster: ControlPlane, schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    """The API server answers 500 then: not a refusal, but nobody else would tell."""
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    cluster.client.create(hooks, _dead_webhook(schedexts.namespace))

    schedexts.create(nodeSelector=nowhere)

    found = schedexts.await_reason("Accepted", "DaemonSetRefused")
    assert 'failed calling webhook "dead.example.com"' in found["message"]
    cluster.client.delete(f"{hooks}/{schedexts.namespace}")
    schedexts.await_reason("Accepted", "Accepted", timeout_s=60)


def _dead_webhook(namespace: str) -> JsonObject:
    """Asked about every DaemonSet of the namespace, where nobody answers."""
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["daemonsets"],
    }
    hook = {
        "name": "dead.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": namespace}, "webhooks": [hook]}


def test_two_that_want_the_same_nodes_name_each_other_until_one_goes(
    schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    schedexts.create("one", nodeSelector=nowhere)
    schedexts.await_reason("Accepted", "Accepted", "one")

    schedexts.create("two", nodeSelector=nowhere)

    for name, other in (("one", "two"), ("two", "one")):
        found = schedexts.await_reason("Accepted", "Overlapping", name)
        assert found["message"].startswith(f"{schedexts.namespace}/{other} may want the same nodes")
    schedexts.delete("two")
    schedexts.await_reason("Accepted", "Accepted", "one")


def test_each_change_of_an_answer_is_an_event(
    cluster: ControlPlane, schedexts: SchedExts, nowhere: dict[str, str]
) -> None:
    schedexts.create(nodeSelector=nowhere)
    schedexts.await_reason("Deployed", "NoNodes")

    schedexts.change(suspend=True)
    schedexts.await_reason("Deployed", "Suspended")

    def told() -> list[JsonObject]:
        events = cluster.client.items(f"/apis/events.k8s.io/v1/namespaces/{schedexts.namespace}/events")
        return [each for each in events if each.get("reason") == "Suspended"]

    polling.until(lambda: len(told()) == 2, "the events are there")
    assert {event["note"] for event in told()} == {
        "Deployed is False: spec.suspend is true: nothing runs",
        "Progressing is False: spec.suspend is true: nothing runs",
    }
    assert {event["regarding"]["uid"] for event in told()} == {schedexts.get()["metadata"]["uid"]}
    assert {event["type"] for event in told()} == {"Normal"}
