"""The agent on a real node: its report says what the kernel runs, and whose that is.

The agent is the shipped DaemonSet with the operator's image. What the report says is compared with what is
read on the node without a line of what is tested.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from rig.base import polling
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.cluster.node import Node
from rig.guest import holders
from rig.guest.schedulers import catalog
from rig.operator import installation, operatorimage
from rig.registries.registry import Registry
from rig.runtimes import images

from .conftest import Site

Fleet = tuple[ControlPlane, Registry, Node]
_NAMESPACE = "sked-node"
_REPORTS = "/apis/sked.schedkit.io/v1/schedextnodes"
_STARTED_S = 600  # an emulated node unpacks the image and starts Python


@dataclass(frozen=True)
class Agent:
    """The agent of the only node, and its report."""

    site: Site

    def report(self) -> JsonObject:
        """What it has written; empty: nothing yet."""
        found = self.site.cluster.client.find(f"{_REPORTS}/{self.site.node.name}")
        return dict(found["status"]) if found else {}

    def await_report(self, is_so: Callable[[JsonObject], bool], what: str) -> JsonObject:
        polling.until(lambda: is_so(self.report()), what, timeout_s=_STARTED_S, poll_s=0.3)
        return self.report()

    def pods(self) -> list[JsonObject]:
        return self.site.cluster.client.items(f"/api/v1/namespaces/{_NAMESPACE}/pods")


@pytest.fixture(scope="module")
def installed(fleet: Fleet) -> Iterator[ControlPlane]:
    """CRD, role, policy and DaemonSet of `config/agent`."""
    cluster, registry, _ = fleet
    image = operatorimage.reference(registry)
    objects = [*installation.kustomized("crd"), *installation.kustomized("agent")]
    for each in objects:
        if each["kind"] == "DaemonSet":
            each["spec"]["template"]["spec"]["containers"][0]["image"] = image
    cluster.apply(*objects, namespace=_NAMESPACE)
    yield cluster
    cluster.kubectl("delete", f"namespace/{_NAMESPACE}", "crd/schedextnodes.sked.schedkit.io", timeout_s=180)


@pytest.fixture
def agent(site: Site, installed: ControlPlane) -> Agent:
    assert installed is site.cluster
    return Agent(site)


def _started(agent: Agent, name: str, *, privileged: bool = True) -> str:
    image = agent.site.push(images.scheduler(name), name)
    container = {"name": "scx", "image": image, "securityContext": {"privileged": privileged}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    agent.site.apply({**pod, "spec": {"containers": [container], "terminationGracePeriodSeconds": 5}})
    return str(agent.site.pod(name)["metadata"]["uid"])


def test_the_report_says_what_the_kernel_runs_and_whose_it_is(agent: Agent) -> None:
    began = time.monotonic()
    first = agent.await_report(lambda said: said.get("state") == "disabled", "the agent reports")
    print("first report after", time.monotonic() - began, first)
    assert first["owner"] == {"kind": "None"}
    assert first["eligible"] == "Yes"

    uid = _started(agent, "fifo")
    began = time.monotonic()
    agent.site.until(lambda: agent.site.state() == "enabled", "attached")
    seen = time.monotonic()
    attached = agent.await_report(lambda said: said.get("state") == "enabled", "the report says enabled")
    print("attach", seen - began, "report", time.monotonic() - seen, attached)
    assert holders.pods_with_links(agent.site.node.guest) == {uid}
    assert (attached["owner"]["kind"], attached["owner"]["podUID"]) == ("Pod", uid)
    assert attached["ops"] == catalog()["fifo"].ops_name

    agent.site.node.guest.run("echo S > /proc/sysrq-trigger")
    ended = agent.await_report(lambda said: bool(said.get("exits")), "the report has the exit")
    print(ended)
    assert ended["exits"][-1]["kind"] == 67
    print(agent.pods()[0]["status"])
    print(agent.site.cluster.kubectl("get", "schedextnodes", "-o", "wide").stdout)
    print(agent.site.cluster.kubectl("logs", "-n", _NAMESPACE, "daemonset/sked-node-agent").stdout)
