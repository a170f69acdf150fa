"""Managers that come and go: what they find when they start, who of two acts, and what they leave behind."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from rig.base import polling
from rig.cluster.audit import AuditEvent
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import ApiError, JsonObject
from rig.operator import manager, scenes
from rig.operator.manager import IMAGE, Manager, SchedExts

LEASE = "b4c95cb3.schedkit.io"


@pytest.fixture(autouse=True)
def crd(cluster: ControlPlane) -> None:
    manager.install_crd(cluster)


@pytest.fixture
def schedexts(cluster: ControlPlane, namespace: str) -> SchedExts:
    return SchedExts(cluster, namespace)


@pytest.fixture
def start(cluster: ControlPlane, namespace: str) -> Iterator[Callable[..., Manager]]:
    """Starts managers whose lease is in the test's namespace, and ends them with the test."""
    started: list[Manager] = []

    def one(name: str, *flags: str) -> Manager:
        made = Manager(cluster, name, f"--namespace={namespace}", *flags)
        started.append(made)
        made.await_ready()
        return made

    yield one
    for each in started:
        each.process.stop()


def test_pods_of_the_go_sked_stay_until_the_spec_changes(
    cluster: ControlPlane, schedexts: SchedExts, start: Callable[..., Manager]
) -> None:
    uid = schedexts.create()["metadata"]["uid"]
    path = f"/apis/apps/v1/namespaces/{schedexts.namespace}/daemonsets"
    before = cluster.client.create(path, _of_the_go_sked("scx", uid))

    start("upgraded")

    found = schedexts.await_reason("Progressing", "LegacyTemplate")
    assert "they lack the node affinity" in found["message"]
    assert cluster.client.get(f"{path}/scx")["spec"] == before["spec"]

    schedexts.change(args=["--new"])
    schedexts.await_reason("Progressing", "UpToDate")
    spec = cluster.client.get(f"{path}/scx")["spec"]["template"]["spec"]
    assert spec["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"


def _of_the_go_sked(name: str, uid: str) -> JsonObject:
    labels = {"name": name, "managed-by": "sked-controller"}
    owner = {
        "apiVersion": "sked.schedkit.io/v1",
        "kind": "SchedExt",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    container = {"name": "scx", "image": IMAGE, "securityContext": {"privileged": True}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "labels": {"managed-by": "sked-controller"},
            "ownerReferences": [owner],
        },
        "spec": {
            "selector": {"matchLabels": {"name": name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_of_two_managers_one_acts_and_the_other_takes_over_when_it_leaves(
    cluster: ControlPlane, schedexts: SchedExts, start: Callable[..., Manager]
) -> None:
    first = start("first", "--leader-elect")
    first.await_word("lease_acquired")
    second = start("second", "--leader-elect=true")
    second.await_word("lease_held_elsewhere")

    schedexts.create("one")
    schedexts.await_reason("Deployed", "NoNodes", "one")
    (held,) = second.says("lease_held_elsewhere")
    assert (held["holder"], held["namespace"]) == (_holder(cluster, schedexts.namespace), schedexts.namespace)
    assert 0 <= held["age_s"] < 15
    assert _creators(cluster, schedexts.namespace) == {"first"}

    assert first.terminate() == 0
    schedexts.create("two")
    schedexts.await_reason("Deployed", "NoNodes", "two")
    assert _creators(cluster, schedexts.namespace) == {"first", "second"}
    assert second.terminate() == 0
    assert _holder(cluster, schedexts.namespace) == ""


def _holder(cluster: ControlPlane, namespace: str) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}"
    holder: str = cluster.client.get(path)["spec"].get("holderIdentity", "")
    return holder


def _creators(cluster: ControlPlane, namespace: str) -> set[str]:
    return {each.user for each in cluster.audit(verb="create", resource="daemonsets", namespace=namespace)}


@pytest.mark.full  # a lease must run out
def test_a_manager_frozen_past_its_lease_changes_nothing_when_it_is_thawed(
    cluster: ControlPlane, schedexts: SchedExts, start: Callable[..., Manager]
) -> None:
    names = [f"scx-{number}" for number in range(5)]
    first = start("frozen", "--leader-elect")
    first.await_word("lease_acquired")
    for name in names:
        schedexts.create(name, nodeSelector={"no": "node"})
    _await_served(schedexts, names, generation=1)
    second = start("successor", "--leader-elect")
    second.await_word("lease_held_elsewhere")

    first.process.send(signal.SIGSTOP)
    second.await_word("lease_acquired", timeout_s=60)
    since = cluster.audit_log.position()
    for name in names:
        schedexts.change(name, args=["--while-it-was-frozen"])
    first.process.send(signal.SIGCONT)

    polling.until(lambda: first.process.exit_code() is not None, "it ends", timeout_s=60)
    _await_served(schedexts, names, generation=2)
    assert first.process.exit_code() == 1
    assert _written(cluster, "frozen", since) == set()
    assert {"daemonsets", "schedexts/status"} <= _written(cluster, "successor", since)


def _await_served(schedexts: SchedExts, names: list[str], *, generation: int) -> None:
    """Return when the status of each is about that spec."""

    def behind() -> list[str]:
        return [name for name in names if schedexts.status(name).get("observedGeneration") != generation]

    polling.until(lambda: not behind(), f"generation {generation} of all is served")


def _written(cluster: ControlPlane, user: str, since: int) -> set[str]:
    """What that user changed, or tried to change, beside its lease."""
    asked = cluster.audit(since=since, user=user)
    reading = ("get", "list", "watch")
    return {each.resource for each in asked if each.verb not in reading} - {"leases"}


def test_a_manager_that_loses_its_lease_ends_with_an_error(
    cluster: ControlPlane, namespace: str, start: Callable[..., Manager]
) -> None:
    loser = start("loser", "--leader-elect")
    loser.await_word("lease_acquired")

    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}"
    cluster.client.patch(path, {"spec": {"holderIdentity": "a thief"}})

    polling.until(lambda: loser.process.exit_code() is not None, "it ends")
    assert loser.process.exit_code() == 1
    assert "was taken by 'a thief'" in loser.says("manager_failed")[0]["reason"]


def test_a_manager_that_goes_leaves_what_runs_alone_and_the_next_picks_it_up(
    cluster: ControlPlane, schedexts: SchedExts, start: Callable[..., Manager]
) -> None:
    old = start("old")
    schedexts.create()
    uid = schedexts.await_daemon_set()["metadata"]["uid"]
    schedexts.await_reason("Deployed", "NoNodes")
    assert old.terminate() == 0

    schedexts.change(args=["--while-nobody-looked"])
    since = cluster.audit_log.position()
    start("new")

    polling.until(lambda: schedexts.condition("Deployed")["observedGeneration"] == 2, "it is picked up")
    found = schedexts.daemon_set() or {}
    assert found["metadata"]["uid"] == uid
    assert found["spec"]["template"]["spec"]["containers"][0]["args"] == ["--while-nobody-looked"]
    deletions = cluster.audit(
        since=since, verb="delete", resource="daemonsets", namespace=schedexts.namespace
    )
    assert not list(deletions)


def test_a_manager_that_starts_beside_a_refusal_does_not_take_it_back(
    cluster: ControlPlane, schedexts: SchedExts, start: Callable[..., Manager]
) -> None:
    with scenes.nodes(cluster, "starts") as nodes:
        old = start("refused")
        schedexts.create(nodeSelector=nodes)
        schedexts.await_reason("Deployed", "PodsSettled", timeout_s=60)
        _refuse_changes(cluster, schedexts)
        schedexts.change(args=["--new"])
        schedexts.await_reason("Accepted", "DaemonSetRefused")
        assert old.terminate() == 0
        since, status = cluster.audit_log.position(), schedexts.status()

        new = start("refused-again")

        new.await_word("reconcile_delayed")
        assert polling.stays_untrue(lambda: list(_statuses(cluster, since, new)), for_s=3)
        assert schedexts.status() == status


def _statuses(cluster: ControlPlane, since: int, by: Manager) -> Iterator[AuditEvent]:
    return cluster.audit(since=since, user=by.name, verb="update", resource="schedexts/status")


def _refuse_changes(cluster: ControlPlane, schedexts: SchedExts) -> None:
    """A policy against every change of a DaemonSet there, in force."""
    group, name = "admissionregistration.k8s.io/v1", schedexts.namespace
    changes = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["daemonsets"],
    }
    policy = {
        "matchConstraints": {"resourceRules": [changes]},
        "validations": [{"expression": "false", "message": "nothing is changed here"}],
    }
    own_namespace = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": own_namespace},
    }
    meta = {"apiVersion": group, "metadata": {"name": name}}
    cluster.apply(
        {**meta, "kind": "ValidatingAdmissionPolicy", "spec": policy},
        {**meta, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    )

    def is_refused() -> bool:
        try:
            schedexts.edit_daemon_set({"metadata": {"annotations": {"example.com/note": "a change"}}})
        except ApiError as error:
            return "nothing is changed here" in error.message
        return False

    polling.until(is_refused, "the policy is in force")


def test_a_schedext_can_be_deleted_while_no_manager_runs(
    schedexts: SchedExts, start: Callable[..., Manager]
) -> None:
    old = start("gone")
    schedexts.create()
    schedexts.await_daemon_set()
    old.process.kill()

    schedexts.delete()

    polling.until(lambda: not schedexts.daemon_set(), "nothing is left")
