"""The operator and a real node: a SchedExt attaches its scheduler, its change another one, its end none.

Everything is as installed (CRDs, RBAC, policy, service accounts, the agent as a pod), except that the manager
is a process of the host, with rules of the test's own: an emulated node would take minutes to start it. What
the kernel runs, and for whom, is read on the node without a line of what is tested. The agent's report and
the SchedExt's status must say the same, with decoys beside: an ejected scheduler whose process lives on, and
somebody else's struct_ops, which is no scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig.base import polling, processes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.cluster.node import Node
from rig.guest import holders
from rig.guest.schedulers import binary, catalog
from rig.operator import installation, manager, operatorimage, permissions
from rig.operator.installation import ACCOUNT, NAMESPACE
from rig.operator.manager import Manager, SchedExts
from rig.operator.trustrules import KEY_FILE, MountedRules, SignedImages
from rig.registries.registry import Registry
from rig.runtimes import images
from rig.signatures.cosign import Cosign

from .conftest import Site

Fleet = tuple[ControlPlane, Registry, Node]
# what only a pod of the manager's own would need
_OF_ITS_POD = {"Deployment", "Service"}
_NAME = "scx"
_AGENTS = "sked-node"
_REPORTS = "/apis/sked.schedkit.io/v1/schedextnodes"
_AGENT_STARTS_S = 600  # an emulated node unpacks 84 MB and starts Python
_TOLD_S = 60  # a pod's start takes most of it
_NOWHERE = {"e2e": "nowhere"}


@dataclass(frozen=True)
class Stage:
    """One SchedExt at a time, in the namespace of a test."""

    site: Site
    signed: SignedImages
    schedexts: SchedExts

    def push(self, name: str, *, sign: bool = True) -> str:
        """The image of a scheduler by tag, under the name that host, node and pods share."""
        place = f"signed/{name}" if sign else f"unsigned/{name}"
        digest = self.site.images.client.push(images.scheduler(name), place, "v1")
        if sign:
            self.signed.cosign.sign(f"{self.site.images.host}/{place}@{digest}", self.signed.key)
        return f"{self.site.images.named_host}/{place}:v1"

    def await_ops(self, name: str) -> None:
        """Until the node's kernel runs that scheduler."""
        wanted = ("enabled", catalog()[name].ops_name)
        self.site.until(lambda: (self.site.state(), self._ops()) == wanted, f"the kernel runs {name}")

    def await_none(self) -> None:
        self.site.until(lambda: self.site.state() == "disabled", "the kernel runs its own scheduler")

    def owners(self) -> set[str]:
        """The uids of the pods that hold the attached scheduler, as the node's kernel shows it."""
        return holders.pods_with_links(self.site.node.guest)

    def pods(self) -> list[JsonObject]:
        """Those of the SchedExt, without those on their way out."""
        owned = [pod for pod in self.schedexts.pods() if "ownerReferences" in pod["metadata"]]
        return [pod for pod in owned if "deletionTimestamp" not in pod["metadata"]]

    def start_decoy(self, name: str, image: str) -> str:
        """A pod of nobody's; its uid. Without the labels: the DaemonSet would take it for its own."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        container = {"name": "scx", "image": image, "securityContext": {"privileged": True}}
        self.site.apply({**pod, "spec": {"containers": [container], "terminationGracePeriodSeconds": 5}})
        return str(self.site.pod(name)["metadata"]["uid"])

    def report(self) -> JsonObject:
        """What the node's agent says; empty: nothing yet."""
        found = self.site.cluster.client.find(f"{_REPORTS}/{self.site.node.name}")
        return dict(found["status"]) if found else {}

    def await_report(self, **wanted: object) -> JsonObject:
        """The report, as soon as it says that of kernel and owner."""

        def is_so() -> bool:
            said = self.report()
            flat = {**said, **{f"owner_{word}": value for word, value in said.get("owner", {}).items()}}
            return all(flat.get(word) == value for word, value in wanted.items())

        self.site.until(is_so, f"the report says {wanted}")
        return self.report()

    def await_ready(self, reason: str) -> JsonObject:
        """The condition Ready, as soon as it has that reason."""
        return self.schedexts.await_reason("Ready", reason, _NAME, timeout_s=_TOLD_S)

    def nodes(self) -> JsonObject:
        """How the SchedExt counts its nodes."""
        found: JsonObject = self.schedexts.get(_NAME)["status"]["nodes"]
        return found

    def stays_without_daemon_set(self, *, for_s: float) -> bool:
        return polling.stays_untrue(lambda: self.schedexts.daemon_set(_NAME), for_s=for_s)

    def was_refused_daemon_sets(self) -> bool:
        """Whether the API server has let the manager make none in this namespace."""
        cluster, namespace = self.site.cluster, self.site.namespace
        return any(cluster.audit(user=ACCOUNT, resource="daemonsets", namespace=namespace, code=403))

    def uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def _ops(self) -> str:
        return self.site.node.read("/sys/kernel/sched_ext/root/ops")


@pytest.fixture(scope="module")
def installed(fleet: Fleet) -> Iterator[Path]:
    """What `make deploy` installs, but for the manager's own pod; a kubeconfig of its account."""
    cluster, registry, only = fleet
    objects = [each for each in installation.kustomized("default") if each["kind"] not in _OF_ITS_POD]
    (agent,) = (each for each in objects if each["kind"] == "DaemonSet")
    agent["spec"]["template"]["spec"]["containers"][0]["image"] = operatorimage.reference(registry)
    of_agents = [each for each in objects if each["metadata"].get("namespace") == _AGENTS]
    cluster.apply(*(each for each in objects if each not in of_agents), namespace=NAMESPACE)
    cluster.apply(*of_agents, namespace=_AGENTS)
    crds = ("crd/schedexts.sked.schedkit.io", "crd/schedextnodes.sked.schedkit.io")
    cluster.kubectl("wait", "--for=condition=Established", *crds)
    polling.until(
        lambda: cluster.client.find(f"{_REPORTS}/{only.name}"), "the agent reports", timeout_s=_AGENT_STARTS_S
    )
    yield installation.account_kubeconfig(cluster)
    cluster.kubectl("delete", *crds, f"namespace/{NAMESPACE}", f"namespace/{_AGENTS}", timeout_s=180)


@pytest.fixture(scope="module")
def decoys(fleet: Fleet) -> Iterator[None]:
    """What looks like the owner of the attached scheduler, and is not."""
    guest = fleet[2].guest
    ejected = guest.begin(f"exec '{binary('lingering')}'")
    polling.until(lambda: fleet[2].read("/sys/kernel/sched_ext/state") == "enabled", "the decoy is attached")
    guest.run("echo S > /proc/sysrq-trigger")
    polling.until(lambda: fleet[2].read("/sys/kernel/sched_ext/state") == "disabled", "the decoy is ejected")
    other = guest.begin(f"exec '{binary('tcp')}'")
    yield
    for each in (ejected, other):
        assert not guest.has_ended(each), "a decoy that is gone deceives nobody"
    guest.run("pkill -KILL -f scx_rig_lingering; pkill -KILL -f rig_tcp")


@pytest.fixture(scope="module")
def signed(fleet: Fleet) -> SignedImages:
    """Somebody with a key, who signs images of the node's registry."""
    folder = processes.run_folder("e2e-operator")
    cosign = Cosign(3, folder / "cosign", ca_file=fleet[1].ca_file)
    return SignedImages(fleet[1], cosign, cosign.new_key(), folder)


@pytest.fixture
def sked(fleet: Fleet, installed: Path, signed: SignedImages) -> Iterator[Manager]:
    """The manager with the rights of its account, under rules that trust one key."""
    rules = MountedRules(processes.run_folder("e2e-rules") / "rules")
    rules.write(signed.rules("enforce"))
    leading = ("--leader-elect", f"--namespace={NAMESPACE}")
    trusting = (f"--trust-config={rules.folder}", f"--registry-ca={fleet[1].ca_file}", "--trust-interval=2")
    since = fleet[0].audit_log.position()
    with manager.running(fleet[0], "sked-native", *leading, *trusting, kubeconfig=installed) as running:
        yield running
    asked = list(fleet[0].audit(since=since, user=ACCOUNT))
    assert asked
    assert permissions.beyond(asked) == set()


@pytest.fixture
def stage(site: Site, installed: Path, signed: SignedImages, decoys: None) -> Iterator[Stage]:
    """With a kernel that runs no scheduler, before and after."""
    assert installed.exists()
    assert decoys is None
    stage = Stage(site, signed, SchedExts(site.cluster, site.namespace))
    assert site.state() == "disabled"
    yield stage
    for each in stage.schedexts.every():
        stage.schedexts.delete(each["metadata"]["name"])
    stage.await_none()


@pytest.mark.usefixtures("sked")
def test_a_schedext_attaches_its_scheduler_its_change_another_and_its_end_none(stage: Stage) -> None:
    stage.schedexts.create(_NAME, sched=stage.push("fifo"))

    stage.await_ops("fifo")
    first = stage.uids()
    assert len(first) == 1
    assert stage.owners() == first
    assert stage.await_ready("Attached")["status"] == "True"
    said = stage.await_report(state="enabled", owner_kind="Pod", owner_podUID=first.copy().pop())
    assert said["ops"] == catalog()["fifo"].ops_name
    assert (stage.nodes()["attached"], stage.nodes()["desired"]) == (1, 1)
    verified = stage.schedexts.await_reason("Verified", "Verified", _NAME)
    assert verified["message"].endswith(f"was signed by {KEY_FILE}")

    stage.schedexts.change(_NAME, sched=stage.push("alias"))

    stage.await_ops("alias")
    second = stage.uids()
    assert len(second) == 1
    assert second != first
    assert stage.owners() == second
    stage.await_report(state="enabled", owner_kind="Pod", owner_podUID=second.copy().pop())
    assert stage.await_ready("Attached")["status"] == "True"

    stage.schedexts.delete(_NAME)

    stage.await_none()
    assert stage.owners() == set()
    stage.await_report(state="disabled", owner_kind="None")


@pytest.mark.usefixtures("sked")
def test_an_eject_stands_on_the_schedext_in_the_kernels_words(stage: Stage) -> None:
    stage.schedexts.create(_NAME, sched=stage.push("staller"), args=["--stall-after", "10"])
    stage.await_ops("staller")

    stage.site.until(
        lambda: stage.schedexts.condition("Ready", _NAME).get("reason") == "Ejected", "the eject is told"
    )

    ready = stage.schedexts.condition("Ready", _NAME)
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
    decoy = stage.start_decoy(f"{_NAME}-decoy", image)
    stage.await_ops("fifo")

    stage.schedexts.create(_NAME, sched=image)

    stage.site.until(lambda: _has_ended(stage.pods()), "the kernel has refused the SchedExt's scheduler")
    assert stage.owners() == {decoy}
    stage.await_report(owner_kind="Pod", owner_podUID=decoy)
    assert "of a pod that sked did not make" in stage.await_ready("Conflicted")["message"]
    assert (stage.nodes()["attached"], stage.nodes()["conflicted"]) == (0, 1)
    stage.site.cluster.client.delete(f"/api/v1/namespaces/{stage.site.namespace}/pods/{_NAME}-decoy")


def _has_ended(pods: list[JsonObject]) -> bool:
    statuses = [each for pod in pods for each in pod["status"].get("containerStatuses", ())]
    return any("terminated" in {**each["lastState"], **each["state"]} for each in statuses)


@pytest.mark.usefixtures("sked")
def test_an_unsigned_image_reaches_no_node(stage: Stage) -> None:
    stage.schedexts.create(_NAME, sched=stage.push("fifo", sign=False))

    refused = stage.schedexts.await_reason("Accepted", "Untrusted", _NAME)

    assert "is not signed" in refused["message"]
    assert stage.stays_without_daemon_set(for_s=2)


@pytest.mark.usefixtures("sked")
def test_without_the_permission_for_daemonsets_nothing_runs_until_it_is_back(stage: Stage) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/sked-manager-role"
    client = stage.site.cluster.client
    rules = client.get(path)["rules"]
    client.patch(path, {"rules": [each for each in rules if "daemonsets" not in each["resources"]]})
    try:
        stage.schedexts.create(_NAME, sched=stage.push("fifo"), nodeSelector=_NOWHERE)
        stage.site.until(stage.was_refused_daemon_sets, "the manager was refused")
        assert stage.schedexts.daemon_set(_NAME) is None
    finally:
        client.patch(path, {"rules": rules})
    stage.schedexts.await_daemon_set(_NAME)


def test_without_a_manager_nothing_runs_until_there_is_one(
    stage: Stage, request: pytest.FixtureRequest
) -> None:
    stage.schedexts.create(_NAME, sched=stage.push("fifo"), nodeSelector=_NOWHERE)
    assert stage.stays_without_daemon_set(for_s=4)

    request.getfixturevalue("sked")

    stage.schedexts.await_daemon_set(_NAME)
