"""The operator and a real node: a SchedExt attaches its scheduler, its change another one, its end none.

Everything is as installed (CRDs, RBAC, policy, service accounts, the agent as a pod), except that the manager
is a process of the host, with rules of the test's own: an emulated node would take minutes to start it. What
the kernel runs, and for whom, is read on the node without a line of what is tested. The agent's report and
the SchedExt's status must say the same, with decoys beside: an ejected scheduler whose process lives on, and
somebody else's struct_ops, which is no scheduler.
"""

from __future__ import annotations

import pytest

from rig.cluster.kubeclient import JsonObject
from rig.guest.schedulers import catalog
from rig.operator.trustrules import KEY_FILE

from .sites import NAME, Stage

_NOWHERE = {"e2e": "nowhere"}

pytestmark = pytest.mark.usefixtures("decoys")


@pytest.mark.usefixtures("sked")
def test_a_schedext_attaches_its_scheduler_its_change_another_and_its_end_none(stage: Stage) -> None:
    stage.schedexts.create(NAME, sched=stage.push("fifo"))

    stage.await_ops("fifo")
    first = stage.uids()
    assert len(first) == 1
    assert stage.owners() == first
    assert stage.await_ready("Attached")["status"] == "True"
    said = stage.await_report(state="enabled", owner_kind="Pod", owner_podUID=first.copy().pop())
    assert said["ops"] == catalog()["fifo"].ops_name
    assert (stage.nodes()["attached"], stage.nodes()["desired"]) == (1, 1)
    verified = stage.schedexts.await_reason("Verified", "Verified", NAME)
    assert verified["message"].endswith(f"was signed by {KEY_FILE}")

    stage.schedexts.change(NAME, sched=stage.push("alias"))

    stage.await_ops("alias")
    second = stage.uids()
    assert len(second) == 1
    assert second != first
    assert stage.owners() == second
    stage.await_report(state="enabled", owner_kind="Pod", owner_podUID=second.copy().pop())
    assert stage.await_ready("Attached")["status"] == "True"

    stage.schedexts.delete(NAME)

    stage.await_none()
    assert stage.owners() == set()
    stage.await_report(state="disabled", owner_kind="None")


@pytest.mark.usefixtures("sked")
def test_an_eject_stands_on_the_schedext_in_the_kernels_words(stage: Stage) -> None:
    stage.schedexts.create(NAME, sched=stage.push("staller"), args=["--stall-after", "10"])
    stage.await_ops("staller")

    stage.site.until(
        lambda: stage.schedexts.condition("Ready", NAME).get("reason") == "Ejected", "the eject is told"
    )

    ready = stage.schedexts.condition("Ready", NAME)
    assert ready["status"] == "False"
    assert "runnable task stall (1026)" in ready["message"]
    assert "victim[" in ready["message"]
    last = stage.report()["exits"][-1]
    assert (last["kind"], last["ops"]) == (1026, catalog()["staller"].ops_name)
    assert last["task"].startswith("victim[")


@pytest.mark.usefixtures("sked")
def test_a_decoy_of_the_same_image_that_holds_the_kernel_is_told_from_the_schedexts_pod(stage: Stage) -> None:
    """The sabotage of the proof above: neither a running pod nor its name or image prove anything."""
    image = stage.push("fifo")
    decoy = stage.start_decoy(f"{NAME}-decoy", image)
    stage.await_ops("fifo")

    stage.schedexts.create(NAME, sched=image)

    stage.site.until(lambda: _has_ended(stage.pods()), "the kernel has refused the SchedExt's scheduler")
    assert stage.owners() == {decoy}
    stage.await_report(owner_kind="Pod", owner_podUID=decoy)
    assert "of a pod that sked did not make" in stage.await_ready("Conflicted")["message"]
    assert (stage.nodes()["attached"], stage.nodes()["conflicted"]) == (0, 1)
    stage.site.cluster.client.delete(f"/api/v1/namespaces/{stage.site.namespace}/pods/{NAME}-decoy")


def _has_ended(pods: list[JsonObject]) -> bool:
    statuses = [each for pod in pods for each in pod["status"].get("containerStatuses", ())]
    return any("terminated" in {**each["lastState"], **each["state"]} for each in statuses)


@pytest.mark.usefixtures("sked")
def test_an_unsigned_image_reaches_no_node(stage: Stage) -> None:
    stage.schedexts.create(NAME, sched=stage.push("fifo", sign=False))

    refused = stage.schedexts.await_reason("Accepted", "Untrusted", NAME)

    assert "is not signed" in refused["message"]
    assert stage.stays_without_daemon_set(for_s=2)


@pytest.mark.usefixtures("sked")
def test_without_the_permission_for_daemonsets_nothing_runs_until_it_is_back(stage: Stage) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/sked-manager-role"
    client = stage.site.cluster.client
    rules = client.get(path)["rules"]
    client.patch(path, {"rules": [each for each in rules if "daemonsets" not in each["resources"]]})
    try:
        stage.schedexts.create(NAME, sched=stage.push("fifo"), nodeSelector=_NOWHERE)
        stage.site.until(stage.was_refused_daemon_sets, "the manager was refused")
        assert stage.schedexts.daemon_set(NAME) is None
    finally:
        client.patch(path, {"rules": rules})
    stage.schedexts.await_daemon_set(NAME)


def test_without_a_manager_nothing_runs_until_there_is_one(
    stage: Stage, request: pytest.FixtureRequest
) -> None:
    stage.schedexts.create(NAME, sched=stage.push("fifo"), nodeSelector=_NOWHERE)
    assert stage.stays_without_daemon_set(for_s=4)

    request.getfixturevalue("sked")

    stage.schedexts.await_daemon_set(NAME)
