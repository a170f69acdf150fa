"""The operator as users install it: by make and kubectl, with exactly its own permissions, and out again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from rig.base import polling
from rig.builders import kubernetes_objects
from rig.cluster import controlplane, fakenodes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.operator import installation, installedrules, manager
from rig.operator.installation import ACCOUNT, IMAGE, NAMESPACE, OLD_OBJECTS, ROOT, make
from rig.operator.installedrules import Said
from rig.operator.manager import Manager, SchedExts
from rig.operator.permissions import NEVER_CALLED, Call, allowed, call
from schedkit.model.trust.rules import TrustMode

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/schedexts.sked.schedkit.io"
NODE_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/schedextnodes.sked.schedkit.io"
AGENTS = "/apis/apps/v1/namespaces/sked-node/daemonsets/sked-node-agent"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
IN_NAMESPACE = f"/api/v1/namespaces/{NAMESPACE}"
MANAGER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/sked-controller-manager"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RULES_PAGE = ROOT / "docs/trust/operator.md"
OF_THE_GO_SKED = ROOT / "tests/golden/go-installation.yaml"

_COLLECTED_S = 90  # the garbage collector looks for new kinds of owners every 30 s


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """One of its own: what is installed belongs to a whole cluster."""
    with controlplane.running("install", fake_nodes=True) as plane, fakenodes.running(plane, 2):
        yield plane


@pytest.fixture
def deployed(cluster: ControlPlane) -> ControlPlane:
    """A cluster after `make deploy`, whatever was there before."""
    make(cluster, "deploy", f"IMG={IMAGE}")
    cluster.kubectl("wait", "--for=condition=Established", "crd/schedexts.sked.schedkit.io")
    return cluster


def apply_sample(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-k", str(ROOT / "config/samples"))


def sample(cluster: ControlPlane) -> JsonObject | None:
    return cluster.client.find("/apis/sked.schedkit.io/v1/namespaces/default/schedexts/scx-rusty")


# What is installed


OF_AGENTS = (
    NODE_CRD,
    "/api/v1/namespaces/sked-node",
    AGENTS,
    "/api/v1/namespaces/sked-node/serviceaccounts/sked-node-agent",
    "/api/v1/namespaces/sked-node/resourcequotas/sked-node-agents",
    f"{RBAC}/clusterroles/sked-node-agent-role",
    f"{RBAC}/clusterrolebindings/sked-node-agent-rolebinding",
    f"{RBAC}/clusterroles/sked-schedextnode-viewer-role",
    f"{ADMISSION}/validatingadmissionpolicies/sked-schedextnodes",
    f"{ADMISSION}/validatingadmissionpolicybindings/sked-schedextnodes",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/sked-node-agents",
)
OBJECTS = (
    f"/api/v1/namespaces/{NAMESPACE}",
    CRD,
    MANAGER,
    f"{IN_NAMESPACE}/serviceaccounts/sked-controller-manager",
    f"{IN_NAMESPACE}/services/sked-controller-manager-metrics-service",
    f"{RBAC}/clusterroles/sked-manager-role",
    f"{RBAC}/clusterrolebindings/sked-manager-rolebinding",
    f"{RBAC}/namespaces/{NAMESPACE}/roles/sked-leader-election-role",
    f"{RBAC}/namespaces/{NAMESPACE}/rolebindings/sked-leader-election-rolebinding",
    f"{RBAC}/clusterroles/sked-metrics-reader",
    f"{RBAC}/clusterroles/sked-schedext-editor-role",
    f"{RBAC}/clusterroles/sked-schedext-viewer-role",
    *OF_AGENTS,
)


def missing(cluster: ControlPlane) -> list[str]:
    return [path for path in OBJECTS if cluster.client.find(path) is None]


def test_make_deploy_installs_the_objects_users_know_by_name(deployed: ControlPlane) -> None:
    assert missing(deployed) == []
    assert deployed.client.get(OBJECTS[0])["metadata"]["labels"]["control-plane"] == "controller-manager"


def test_the_manager_is_the_image_that_was_named_within_the_limits_users_know(deployed: ControlPlane) -> None:
    spec = deployed.client.get(MANAGER)["spec"]
    [container] = spec["template"]["spec"]["containers"]

    assert (spec["replicas"], container["image"]) == (1, IMAGE)
    assert container["resources"]["limits"] == {
        "cpu": "500m",
        "memory": "128Mi",
        "ephemeral-storage": "256Mi",
    }
    [agent] = deployed.client.get(AGENTS)["spec"]["template"]["spec"]["containers"]
    assert agent["image"] == IMAGE


def manager_pod(cluster: ControlPlane) -> JsonObject:
    """The pod that the Deployment would make."""
    template = cluster.client.get(MANAGER)["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": template["spec"]}


def test_the_managers_namespace_admits_its_pod_and_no_weaker_one(deployed: ControlPlane) -> None:
    weaker = manager_pod(deployed)
    weaker["spec"]["containers"][0]["securityContext"]["capabilities"] = {}

    assert deployed.client.refusal(f"{IN_NAMESPACE}/pods", manager_pod(deployed)) is None
    refusal = deployed.client.refusal(f"{IN_NAMESPACE}/pods", weaker)
    assert 'violates PodSecurity "restricted:latest": unrestricted capabilities' in str(refusal)


def test_the_installer_file_is_what_make_deploy_applies(deployed: ControlPlane) -> None:
    make(deployed, "build-installer", f"IMG={IMAGE}")

    diff = deployed.kubectl("diff", "-f", str(ROOT / "dist/install.yaml"), check=False)
    assert (diff.returncode, diff.stdout) == (0, "")


def test_an_installation_of_the_go_sked_is_replaced_in_place(cluster: ControlPlane) -> None:
    """Neither a Deployment's selector nor the role of a binding can be changed: they are the same."""
    make(cluster, "undeploy")
    cluster.kubectl("apply", "-f", str(OF_THE_GO_SKED))
    cluster.kubectl("wait", "--for=condition=Established", "crd/schedexts.sked.schedkit.io")
    apply_sample(cluster)
    before = {path: uid_of(cluster, path) for path in OBJECTS if path not in missing(cluster)}
    theirs = (sample(cluster) or {})["metadata"]["uid"]

    make(cluster, "deploy", f"IMG={IMAGE}")

    [container] = cluster.client.get(MANAGER)["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == (IMAGE, ["sked", "manager"])
    assert missing(cluster) == []
    assert len(before) == 9
    assert {path: uid_of(cluster, path) for path in before} == before
    assert (sample(cluster) or {})["metadata"]["uid"] == theirs


def uid_of(cluster: ControlPlane, path: str) -> str:
    uid: str = cluster.client.get(path)["metadata"]["uid"]
    return uid


# The administrator's rules


def deploy(cluster: ControlPlane) -> None:
    make(cluster, "deploy", f"IMG={IMAGE}")


def apply_default(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-k", str(ROOT / "config/default"))


def apply_secure(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-k", str(ROOT / "config/secure"))


def remove_manager(cluster: ControlPlane) -> None:
    for folder in ("manager", "rbac"):
        cluster.kubectl("delete", "-k", str(ROOT / "config" / folder))


@pytest.fixture
def before(cluster: ControlPlane) -> ControlPlane:
    """What an installation looked like that brought rules of its own: `warn`."""
    installedrules.remove(cluster)
    cluster.kubectl("apply", *(f"--filename={file}" for file in OLD_OBJECTS))
    return cluster


@pytest.mark.parametrize(("files", "expected"), installedrules.CASES)
def test_no_upgrade_and_no_partial_uninstall_changes_rules_that_somebody_wrote(
    before: ControlPlane, files: dict[str, str], expected: Said
) -> None:
    installedrules.edit(before, files)
    written = {installedrules.OLD: dict(files)}
    assert installedrules.data(before) == written

    for upgrade in (deploy, apply_default):
        upgrade(before)
        assert installedrules.data(before) == written
        assert installedrules.read(before) == expected
    remove_manager(before)
    assert installedrules.data(before) == written
    deploy(before)
    assert installedrules.data(before) == written
    assert installedrules.read(before) == expected

    apply_secure(before)
    assert installedrules.data(before) == written
    assert installedrules.read(before) == expected._replace(mode=TrustMode.ENFORCE)
    apply_default(before)


def test_without_rules_what_is_installed_warns_or_enforces_by_its_flag(deployed: ControlPlane) -> None:
    installedrules.remove(deployed)
    assert installedrules.read(deployed).mode is TrustMode.WARN

    apply_secure(deployed)

    assert installedrules.data(deployed) == {}
    assert installedrules.read(deployed).mode is TrustMode.ENFORCE

    deploy(deployed)
    assert installedrules.read(deployed).mode is TrustMode.ENFORCE, "who enforces goes on to do so"

    apply_default(deployed)
    assert installedrules.read(deployed).mode is TrustMode.WARN


def test_the_documented_command_moves_rules_to_their_new_name_as_they_are(before: ControlPlane) -> None:
    installedrules.edit(before, installedrules.LISTS)
    deploy(before)
    moving = installedrules.read(before)
    [command] = re.findall("```sh\n(.*?patch configmap sked-trust.*?)```", RULES_PAGE.read_text(), re.DOTALL)

    installation.shell(before, command)

    files = dict(installedrules.LISTS)
    files["rules.yaml"] = files.pop("trust.yaml")
    assert installedrules.data(before) == {installedrules.NEW: files}
    assert installedrules.read(before) == moving


# Out again


def test_the_manager_alone_is_removed_and_a_reinstall_finds_everything(deployed: ControlPlane) -> None:
    apply_sample(deployed)
    uid = (sample(deployed) or {})["metadata"]["uid"]

    remove_manager(deployed)

    assert set(OBJECTS) - set(missing(deployed)) == {CRD, OBJECTS[0], *OF_AGENTS}
    assert (sample(deployed) or {})["metadata"]["uid"] == uid

    make(deployed, "deploy", f"IMG={IMAGE}")

    assert missing(deployed) == []
    assert (sample(deployed) or {})["metadata"]["uid"] == uid


def test_make_undeploy_leaves_nothing_and_nothing_stuck(deployed: ControlPlane) -> None:
    apply_sample(deployed)

    make(deployed, "undeploy")

    assert set(missing(deployed)) == set(OBJECTS)
    make(deployed, "undeploy")  # once more: there is nothing to complain about


def test_make_install_and_uninstall_concern_the_crds_alone(cluster: ControlPlane) -> None:
    make(cluster, "undeploy")

    make(cluster, "install")

    assert set(OBJECTS) - set(missing(cluster)) == {CRD, NODE_CRD}

    make(cluster, "uninstall")

    assert set(missing(cluster)) == set(OBJECTS)


# With exactly its own permissions


def manager_as_itself(cluster: ControlPlane) -> AbstractContextManager[Manager]:
    """The manager with a token of its service account; it leads."""
    kubeconfig = installation.account_kubeconfig(cluster)
    flags = (f"--namespace={NAMESPACE}", "--leader-elect")
    return manager.running(cluster, "as-itself", *flags, kubeconfig=kubeconfig)


def calls(cluster: ControlPlane, since: int) -> set[Call]:
    """Everything that the service account asked for."""
    return {call(event) for event in cluster.audit(since=since, user=ACCOUNT)}


def exercise(schedexts: SchedExts) -> None:
    """All that a SchedExt can go through, one of it twice: then its event is not made anew but counted."""
    schedexts.create()
    schedexts.await_daemon_set()
    schedexts.change(sched="ghcr.io/schedkit/scx_rusty:v2")
    polling.until(lambda: image_of(schedexts) == "ghcr.io/schedkit/scx_rusty:v2", "v2 is deployed")
    for _ in range(2):
        schedexts.change(suspend=True)
        schedexts.await_reason("Deployed", "Suspended")
        schedexts.change(suspend=False)
        schedexts.await_daemon_set()
        polling.until(lambda: schedexts.condition("Deployed")["reason"] != "Suspended", "it is seen running")
    schedexts.delete()
    polling.until(lambda: schedexts.daemon_set() is None, "nothing is left", timeout_s=_COLLECTED_S)


def exercise_a_taken_name(schedexts: SchedExts) -> None:
    """A DaemonSet of somebody else, which no watch of ours shows."""
    schedexts.cluster.apply(
        kubernetes_objects.daemon_set("taken", nodes={"no": "node"}), namespace=schedexts.namespace
    )
    schedexts.create("taken")
    schedexts.await_reason("Accepted", "NameTaken", "taken")


def exercise_metrics(cluster: ControlPlane, namespace: str, sked: Manager) -> None:
    """Somebody who was given the role for it reads the metrics."""
    reader = f"--serviceaccount={namespace}:default"
    cluster.kubectl("create", "clusterrolebinding", namespace, "--clusterrole=sked-metrics-reader", reader)
    token = cluster.token(namespace)
    polling.until(lambda: sked.scrape(token)[0] == 200, "metrics are shown")


def image_of(schedexts: SchedExts) -> str | None:
    found = schedexts.daemon_set()
    return found["spec"]["template"]["spec"]["containers"][0]["image"] if found else None


def test_the_permissions_are_those_the_manager_uses(deployed: ControlPlane) -> None:
    """Nothing it asks for is refused, and nothing is allowed that it does not ask for."""
    since = deployed.audit_log.position()
    namespace = deployed.create_namespace()
    schedexts = SchedExts(deployed, namespace)

    with manager_as_itself(deployed) as sked:
        exercise(schedexts)
        exercise_a_taken_name(schedexts)
        exercise_metrics(deployed, namespace, sked)
        assert sked.terminate() == 0

    refused = list(deployed.audit(since=since, user=ACCOUNT, code=403))
    assert refused == []
    assert calls(deployed, since) == allowed() - {NEVER_CALLED}


def test_without_the_permission_nobody_calls_for_no_daemonset_is_made(deployed: ControlPlane) -> None:
    """It is asked for by the plugin OwnerReferencesPermissionEnforcement, which many clusters have on."""
    role = f"{RBAC}/clusterroles/sked-manager-role"
    rules = deployed.client.get(role)["rules"]
    deployed.client.patch(role, {"rules": [each for each in rules if each["resources"] != [NEVER_CALLED[1]]]})
    schedexts = SchedExts(deployed, deployed.create_namespace())

    with manager_as_itself(deployed) as sked:
        schedexts.create()

        polling.until(lambda: "cannot set blockOwnerDeletion" in sked.log(), "it is refused")
    assert schedexts.daemon_set() is None
