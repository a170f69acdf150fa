"""One cluster with one real node for the whole tier; each test has a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import host_names, polling, processes
from rig.cluster import controlplane, node
from rig.guest.schedulers import binary
from rig.operator import permissions, realnode
from rig.operator.installation import ACCOUNT
from rig.operator.manager import Manager, SchedExts
from rig.operator.trustrules import SignedImages

from .sites import Fleet, Site, Stage


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
    kubeconfig = realnode.install(cluster, registry)
    realnode.await_report(cluster, only)
    yield kubeconfig
    realnode.uninstall(cluster)


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
    return realnode.signer(fleet[1], processes.run_folder("e2e-operator"))


@pytest.fixture
def sked(fleet: Fleet, installed: Path, signed: SignedImages) -> Iterator[Manager]:
    """The manager with the rights of its account, under rules that trust one key."""
    since = fleet[0].audit_log.position()
    rules = processes.run_folder("e2e-rules") / "rules"
    with realnode.managed(fleet[0], signed, installed, rules) as running:
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
