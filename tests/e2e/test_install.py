"""The operator on a real node: installed by make, it runs a scheduler, with no more than it was given.

However the operator fares, the schedulers that it started run on: the kernel counts every attach.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from rig import images, operatorimage, permissions, polling, reporting
from rig.controlplane import ControlPlane
from rig.installation import ACCOUNT, NAMESPACE, ROOT, make
from rig.kubeclient import JsonObject
from rig.node import Node
from rig.registry import Registry
from rig.schedulers import catalog

from .conftest import Site

DEPLOYMENT = "deployment/sked-controller-manager"
SAMPLE = ROOT / "config/samples/sked_v1_schedext.yaml"
_SCHEDEXT = "/apis/sked.schedkit.io/v1/namespaces/default/schedexts/scx-rusty"
_STARTED_S = 900  # an emulated machine pulls 84 MB and starts Python twice: minutes, if others are busy
_LIMIT_MIB = 128

# an emulated node spends two minutes of CPU time on the operator's image alone
pytestmark = [pytest.mark.full, pytest.mark.timeout(2400)]

Fleet = tuple[ControlPlane, Registry, Node]


class Operator:
    """The operator of a cluster with one real node, and a SchedExt that it serves."""

    def __init__(self, site: Site) -> None:
        self.site, self.cluster = site, site.cluster
        self.image = operatorimage.reference(site.images)
        self.scheduler = site.push(images.scheduler("fifo"), "fifo")

    def deploy(self) -> None:
        make(self.cluster, "deploy", f"IMG={self.image}")
        self.await_manager()

    def await_manager(self) -> None:
        words = ("rollout", "status", DEPLOYMENT, "--namespace", NAMESPACE, f"--timeout={_STARTED_S}s")
        self.cluster.kubectl(*words, timeout_s=_STARTED_S + 10)

    def apply_sample(self) -> None:
        """The sample as it is, but for the image, which must be one that the node can pull."""
        sample = yaml.safe_load(SAMPLE.read_text())
        sample["spec"]["sched"] = self.scheduler
        self.cluster.apply(sample)

    def await_attached(self) -> None:
        polling.until(lambda: self.site.state() == "enabled", "the kernel is enabled", timeout_s=_STARTED_S)

    def attaches(self) -> int:
        """How often the kernel has attached a scheduler since it booted."""
        return int(self.site.node.read("/sys/kernel/sched_ext/enable_seq"))

    def pods(self) -> list[JsonObject]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return self.cluster.client.items(path, labelSelector="control-plane=controller-manager")

    def schedext(self) -> JsonObject:
        return self.cluster.client.get(_SCHEDEXT)

    def change(self, **spec: object) -> int:
        """Merge these fields into the sample's spec; the generation that has them."""
        changed = self.cluster.client.patch(_SCHEDEXT, {"spec": spec})
        return int(changed["metadata"]["generation"])

    def has_served(self, generation: int) -> bool:
        """Whether the operator has taken note of that version of the spec."""
        return bool(self.schedext().get("status", {}).get("observedGeneration") == generation)


@pytest.fixture(scope="module", autouse=True)
def removed_afterwards(fleet: Fleet) -> Iterator[None]:
    """Other modules find the node's kernel without a scheduler. No manager asked for what it should not."""
    yield
    make(fleet[0], "undeploy")
    asked = list(fleet[0].audit(user=ACCOUNT))
    assert asked
    assert permissions.beyond(asked) == set()


@pytest.fixture
def operator(site: Site) -> Operator:
    """Installed, with the sample's scheduler attached, whatever was there before."""
    operator = Operator(site)
    operator.deploy()
    operator.apply_sample()
    operator.await_attached()
    return operator


def test_the_sample_ends_in_an_attached_scheduler_and_a_status_that_says_so(operator: Operator) -> None:
    words = ("wait", "--for=condition=Deployed", "schedext/scx-rusty", "--timeout=120s")
    operator.cluster.kubectl(*words, timeout_s=130)

    status = operator.schedext()["status"]

    assert operator.site.node.read("/sys/kernel/sched_ext/root/ops") == catalog()["fifo"].ops_name
    assert (status["nodes"]["desired"], status["nodes"]["podsReady"]) == (1, 1)


def test_the_manager_needs_neither_privileges_nor_more_memory_than_it_has(operator: Operator) -> None:
    [pod] = operator.pods()
    [status] = pod["status"]["containerStatuses"]

    assert status["restartCount"] == 0
    assert peak_memory_mib(operator.site.node, pod) < _LIMIT_MIB


def peak_memory_mib(node: Node, pod: JsonObject) -> float:
    """The most that the pod ever had, as the node's kernel counted it."""
    uid = pod["metadata"]["uid"]
    peak = node.guest.run(f"cat /sys/fs/cgroup/kubepods/*/pod{uid}/memory.peak").output
    mib = int(peak) / 2**20
    reporting.note(f"the manager's pod had at most {mib:.0f} MiB of memory")
    return mib


def test_a_manager_that_is_killed_comes_back_and_no_scheduler_notices(operator: Operator) -> None:
    [killed] = operator.pods()
    attaches = operator.attaches()

    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{killed['metadata']['name']}"
    operator.cluster.client.delete(path, gracePeriodSeconds="0")
    operator.await_manager()

    assert killed["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in operator.pods()}
    assert (operator.site.state(), operator.attaches()) == ("enabled", attaches)


def test_an_api_server_that_is_away_leaves_schedulers_alone(operator: Operator) -> None:
    attaches = operator.attaches()

    operator.cluster.apiserver.restart()
    operator.await_manager()

    assert (operator.site.state(), operator.attaches()) == ("enabled", attaches)


def test_a_removed_operator_leaves_its_schedulers_and_finds_them_when_it_is_back(operator: Operator) -> None:
    """Back by the file that `make build-installer` writes."""
    attaches = operator.attaches()
    operator.cluster.kubectl("delete", "-k", str(ROOT / "config/manager"), timeout_s=_STARTED_S)
    operator.cluster.kubectl("delete", "-k", str(ROOT / "config/rbac"))
    changed = operator.change(tolerations=[{"key": "example.com/none", "operator": "Exists"}])

    assert (operator.site.state(), operator.attaches()) == ("enabled", attaches)
    assert not operator.has_served(changed)

    make(operator.cluster, "build-installer", f"IMG={operator.image}")
    operator.cluster.kubectl("apply", "-f", str(ROOT / "dist/install.yaml"))
    operator.await_manager()

    operator.site.until(lambda: operator.has_served(changed), "the change is served")


def test_make_undeploy_detaches_the_scheduler_and_leaves_nothing(operator: Operator) -> None:
    make(operator.cluster, "undeploy")

    operator.site.until(lambda: operator.site.state() == "disabled", "the kernel is disabled")
    assert operator.cluster.client.find(f"/api/v1/namespaces/{NAMESPACE}") is None
