"""The operator on a real node: installed by make, it runs a scheduler, with no more than it was given.

However the operator fares, the schedulers that it started run on: the kernel counts every attach.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from rig.base import polling
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.cluster.node import Node
from rig.guest.schedulers import catalog
from rig.operator import operatorimage, permissions
from rig.operator.installation import ACCOUNT, NAMESPACE, ROOT, make
from rig.registries.registry import Registry
from rig.runtimes import images
from rig.session import reporting

from .sites import Site

DEPLOYMENT = "deployment/sked-controller-manager"
SAMPLE = ROOT / "config/samples/sked_v1_schedext.yaml"
_SCHEDEXTS = "/apis/sked.schedkit.io/v1/namespaces/default/schedexts"
_SCHEDEXT = f"{_SCHEDEXTS}/scx-rusty"
_STARTED_S = 900  # an emulated machine pulls 84 MB and starts Python twice: minutes, if others are busy
_MANAGER_MIB = 64  # half of what the pod may have
_OUTAGE_S = 60

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

    def mirrored(self, layout: Path, name: str) -> str:
        """The reference that an image has where the public registry cannot be reached."""
        digest = self.site.images.client.push(layout, f"mirror/{name}", "1")
        return f"{self.site.images.named_host}/mirror/{name}@{digest}"

    def apply_sample(self) -> None:
        """The sample as it is, but for the image, which must be one that the node can pull."""
        sample = yaml.safe_load(SAMPLE.read_text())
        sample["spec"]["sched"] = self.scheduler
        if self.cluster.client.find(_SCHEDEXT) is None:
            self.cluster.apply(sample)
        else:
            self.change(**sample["spec"])

    def await_attached(self, *, attaches: int = 1) -> None:
        """Until a scheduler is attached, and at least so many have been since the kernel booted."""
        self.await_kernel(
            lambda: self.site.state() == "enabled" and self.attaches() >= attaches, "is enabled"
        )

    def await_kernel(self, is_so: Callable[[], bool], what: str) -> None:
        polling.until(is_so, f"the kernel {what}", timeout_s=_STARTED_S)

    def attaches(self) -> int:
        """How often the kernel has attached a scheduler since it booted."""
        return int(self.site.node.read("/sys/kernel/sched_ext/enable_seq"))

    def pods(self) -> list[JsonObject]:
        """The manager's pods, without those that are on their way out."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        pods = self.cluster.client.items(path, labelSelector="control-plane=controller-manager")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def manager_images(self) -> list[str]:
        return [pod["spec"]["containers"][0]["image"] for pod in self.pods()]

    def ready_pods(self) -> dict[str, JsonObject]:
        """The manager's pods that are Ready, by uid."""
        return {pod["metadata"]["uid"]: pod for pod in self.pods() if _is_ready(pod)}

    def schedext(self) -> JsonObject:
        return self.cluster.client.get(_SCHEDEXT)

    def told_about(self, name: str) -> set[str]:
        """The reasons of all events about a SchedExt."""
        events = self.cluster.client.items("/apis/events.k8s.io/v1/namespaces/default/events")
        subjects = ((event["reason"], event["regarding"]) for event in events)
        return {reason for reason, about in subjects if (about["kind"], about["name"]) == ("SchedExt", name)}

    def deployed(self, name: str) -> JsonObject:
        """The condition of that SchedExt; empty as long as it has none."""
        status = self.cluster.client.get(f"{_SCHEDEXTS}/{name}").get("status", {})
        found: list[JsonObject] = [c for c in status.get("conditions", []) if c["type"] == "Deployed"]
        return found[0] if found else {}

    def restarts(self, name: str) -> int:
        """How often the scheduler of that SchedExt has been started anew."""
        pods = self.cluster.client.items("/api/v1/namespaces/default/pods", labelSelector=f"name={name}")
        statuses = [each for pod in pods for each in pod["status"].get("containerStatuses", [])]
        return sum(each["restartCount"] for each in statuses)

    def change(self, **spec: object) -> int:
        """Merge these fields into the sample's spec; the generation that has them."""
        changed = self.cluster.client.patch(_SCHEDEXT, {"spec": spec})
        return int(changed["metadata"]["generation"])

    def has_served(self, generation: int) -> bool:
        """Whether the operator has taken note of that version of the spec."""
        return bool(self.schedext().get("status", {}).get("observedGeneration") == generation)


def _is_ready(pod: JsonObject) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


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
    memory = Memory.of(operator.site.node, pod)
    reporting.note(f"the manager has {memory.own_mib:.0f} MiB; its pod had at most {memory.peak_mib:.0f}")

    assert (status["restartCount"], memory.kills) == (0, 0)
    assert memory.own_mib < _MANAGER_MIB


@dataclass(frozen=True)
class Memory:
    """What a pod has, as the node's kernel counts it."""

    own_mib: float  # without files, which the kernel would drop
    peak_mib: float
    kills: int

    @classmethod
    def of(cls, node: Node, pod: JsonObject) -> Memory:
        group = f"/sys/fs/cgroup/kubepods/*/pod{pod['metadata']['uid']}"
        read = node.guest.run(f"cat {group}/memory.peak {group}/memory.stat {group}/memory.events").output
        peak, *pairs = read.splitlines()
        facts = {name: int(value) for name, value in map(str.split, pairs)}
        return cls(facts["anon"] / 2**20, int(peak) / 2**20, facts["oom_kill"])


def test_a_manager_that_is_killed_comes_back_and_no_scheduler_notices(operator: Operator) -> None:
    [killed] = operator.ready_pods().values()
    attaches = operator.attaches()

    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{killed['metadata']['name']}"
    operator.cluster.client.delete(path, gracePeriodSeconds="0")
    operator.await_kernel(
        lambda: bool(operator.ready_pods().keys() - {killed["metadata"]["uid"]}), "has another"
    )

    assert (operator.site.state(), operator.attaches()) == ("enabled", attaches)


def test_an_upgraded_manager_leaves_schedulers_alone(operator: Operator) -> None:
    attaches, before = operator.attaches(), operator.ready_pods().keys()

    make(operator.cluster, "deploy", f"IMG={operatorimage.reference(operator.site.images, 'next')}")
    operator.await_manager()

    [upgraded] = operator.ready_pods().values()
    assert upgraded["metadata"]["uid"] not in before
    assert upgraded["spec"]["containers"][0]["image"].endswith(":next")
    assert (operator.site.state(), operator.attaches()) == ("enabled", attaches)


def test_an_api_server_that_is_away_leaves_schedulers_alone(operator: Operator) -> None:
    [before] = operator.ready_pods().values()
    attaches = operator.attaches()

    operator.cluster.apiserver.stop(grace_s=2)
    time.sleep(_OUTAGE_S)
    during = (operator.site.state(), operator.attaches())
    operator.cluster.apiserver.start()
    operator.await_manager()
    changed = operator.change(tolerations=[{"key": "example.com/away", "operator": "Exists"}])
    operator.site.until(lambda: operator.has_served(changed), "the manager is at work again")

    [after] = operator.pods()
    assert during == ("enabled", attaches)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] <= 1  # it gave the lease up, as it must


def test_a_removed_operator_leaves_its_schedulers_and_finds_them_when_it_is_back(operator: Operator) -> None:
    """Back by the file that `make build-installer` writes, from a mirror: the node reaches nothing else."""
    attaches = operator.attaches()
    operator.cluster.kubectl("delete", "-k", str(ROOT / "config/manager"), timeout_s=_STARTED_S)
    operator.cluster.kubectl("delete", "-k", str(ROOT / "config/rbac"))
    changed = operator.change(sched=operator.mirrored(images.scheduler("fifo"), "scx_rusty"))

    assert (operator.site.state(), operator.attaches()) == ("enabled", attaches)
    assert not operator.has_served(changed)

    mirrored = operator.mirrored(operatorimage.layout(), "sked")
    make(operator.cluster, "build-installer", f"IMG={mirrored}")
    operator.cluster.kubectl("apply", "-f", str(ROOT / "dist/install.yaml"))
    operator.await_manager()

    operator.await_attached(attaches=attaches + 1)
    operator.site.until(lambda: operator.manager_images() == [mirrored], "the old manager's pod is collected")


@pytest.mark.parametrize(
    ("scheduler", "arguments", "last_words"),
    [("bad_init", [], "ops.init() failed (-19)"), ("staller", ["--stall-after", "1"], "runnable task stall")],
)
def test_a_scheduler_that_keeps_ending_never_counts_as_deployed(
    operator: Operator, scheduler: str, arguments: list[str], last_words: str
) -> None:
    """Between its ends it runs, each time; what it said at the last one is in the status."""
    operator.cluster.client.delete(_SCHEDEXT)
    operator.await_kernel(lambda: operator.site.state() == "disabled", "is disabled")
    name = scheduler.replace("_", "-")
    spec = {"sched": operator.site.push(images.scheduler(scheduler), scheduler), "args": arguments}
    operator.cluster.apply({**kind_and_name(name), "spec": spec})
    operator.await_kernel(lambda: operator.restarts(name) >= 3, f"has had enough of {scheduler} three times")
    operator.site.until(lambda: last_words in operator.deployed(name)["message"], "its words are shown")

    assert (operator.deployed(name)["status"], operator.deployed(name)["reason"]) == ("False", "Crashing")
    assert "PodsSettled" not in operator.told_about(name)
    operator.cluster.client.delete(f"{_SCHEDEXTS}/{name}")


def kind_and_name(name: str) -> JsonObject:
    return {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": name}}


def test_make_undeploy_detaches_the_scheduler_and_leaves_nothing(operator: Operator) -> None:
    make(operator.cluster, "undeploy")

    operator.site.until(lambda: operator.site.state() == "disabled", "the kernel is disabled")
    assert operator.cluster.client.find(f"/api/v1/namespaces/{NAMESPACE}") is None
