"""What managers are allowed, and what they ask for: the same.

Every manager of this tier is a user with the permissions in `config/rbac` and no others. This file runs last,
so that the audit log of the control plane that most of them share has all that they did. What managers of
other control planes ask for is compared when they end, by `rig.operator.manager`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.base import polling
from rig.builders import kubernetes_objects
from rig.cluster.audit import AuditEvent
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import ApiError, Client
from rig.operator import manager, permissions
from rig.operator.manager import GROUP, Manager, SchedExts
from rig.operator.permissions import NEVER_CALLED, Call, allowed, call, was_allowed


@pytest.fixture(scope="module")
def busy(cluster: ControlPlane) -> Iterator[Manager]:
    """A manager that has used each of its permissions, whichever tests ran before."""
    manager.install_crd(cluster)
    namespace = cluster.create_namespace("permissions")
    with manager.running(cluster, "sked-busy", "--leader-elect", f"--namespace={namespace}") as running:
        use_every_permission(cluster, running, SchedExts(cluster, namespace))
        yield running
    cluster.client.delete(f"/api/v1/namespaces/{namespace}")


def use_every_permission(cluster: ControlPlane, sked: Manager, schedexts: SchedExts) -> None:
    nowhere = {"permissions": "nowhere"}
    theirs = kubernetes_objects.daemon_set("taken", nodes=nowhere)
    cluster.client.create(f"/apis/apps/v1/namespaces/{schedexts.namespace}/daemonsets", theirs)
    schedexts.create("taken", nodeSelector=nowhere)
    schedexts.create(nodeSelector=nowhere)
    schedexts.await_reason("Deployed", "NoNodes")
    schedexts.change(args=["--fast"])
    # the same answers twice: the second time their events are counted, not made
    for _ in range(2):
        schedexts.change(suspend=True)
        schedexts.await_reason("Deployed", "Suspended")
        schedexts.change(suspend=None)
        schedexts.await_reason("Deployed", "NoNodes")
    schedexts.await_reason("Accepted", "NameTaken", "taken")
    assert sked.scrape(cluster.token(schedexts.namespace))[0] == 403, "asked about a reader of metrics"


def of_managers(cluster: ControlPlane) -> Iterator[AuditEvent]:
    return (each for each in cluster.audit() if GROUP in each.raw["user"].get("groups", ()))


def test_no_manager_was_ever_refused(cluster: ControlPlane, busy: Manager) -> None:
    assert {call(each) for each in of_managers(cluster) if not was_allowed(each)} == set()
    assert busy.process.exit_code() is None


def test_every_permission_is_used_and_nothing_else_was_asked_for(
    cluster: ControlPlane, busy: Manager
) -> None:
    used = allowed() - {NEVER_CALLED}

    def asked() -> set[Call]:
        return {call(each) for each in of_managers(cluster)}

    polling.until(lambda: asked() >= used, "every permission is used", timeout_s=20)
    assert asked() == used
    assert busy.process.exit_code() is None


def test_a_call_that_is_not_in_the_table_would_be_noticed(cluster: ControlPlane) -> None:
    curious = Client(cluster.user("sked-curious", group=GROUP))

    with pytest.raises(ApiError, match='cannot list resource "secrets"'):
        curious.get("/api/v1/secrets")

    asked = polling.until(lambda: list(cluster.audit(user="sked-curious")), "it is in the audit log")
    assert [(call(each), was_allowed(each)) for each in asked] == [(("", "secrets", "list"), False)]
    assert permissions.beyond(asked) == {("", "secrets", "list")}
