"""One cluster with one real node for the whole tier; each test has a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import host_names, polling, processes
from rig.cluster import controlplane, node
from rig.guest.schedulers import binary
from rig.operator import installation, manager, operatorimage, permissions
from rig.operator.installation import ACCOUNT, NAMESPACE
from rig.operator.manager import Manager, SchedExts
from rig.operator.trustrules import MountedRules, SignedImages
from rig.signatures.cosign import Cosign

from .sites import REPORTS, Fleet, Site, Stage

# what only a pod of the manager's own would need
_OF_ITS_POD = {"Deployment", "Service"}
_AGENTS = "sked-node"
_AGENT_STARTS_S = 600  # an emulated node unpacks 84 MB and starts Python


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """A control plane, its registry, and one node with a 7.x kernel."""
    host_names.learn()
    with controlplane.running("e2e") as cluster, node.registry_for(cluster) as images:
        (only,) = node.plan(cluster, images, ["7"])
        with node.running(only):
            yield cluster, images, only


@pytest.fixture
def site(fleet: Fleet) -> Iterator[Site]:
    """A namespace of the test's own, with the default service account in it."""
    cluster, images, only = fleet
    name = cluster.create_namespace()
    yield Site(cluster, images, only, name)
    cluster.client.delete(f"/api/v1/namespaces/{name}")


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
        lambda: cluster.client.find(f"{REPORTS}/{only.name}"), "the agent reports", timeout_s=_AGENT_STARTS_S
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
def stage(site: Site, installed: Path, signed: SignedImages) -> Iterator[Stage]:
    """With a kernel that runs no scheduler, before and after."""
    assert installed.exists()
    stage = Stage(site, signed, SchedExts(site.cluster, site.namespace))
    assert site.state() == "disabled"
    yield stage
    for each in stage.schedexts.every():
        stage.schedexts.delete(each["metadata"]["name"])
    stage.await_none()
