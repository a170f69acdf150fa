"""One cluster with one real node for the whole tier; each test has a namespace of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from rig import controlplane, names, node, polling
from rig.controlplane import ControlPlane
from rig.errors import RigError
from rig.kubeclient import JsonObject
from rig.node import Node
from rig.registry import Registry

_numbers = itertools.count(1)
POD_TIMEOUT_S = 180


@dataclass(frozen=True)
class Site:
    """A namespace on a cluster with real nodes, and what tests do there."""

    cluster: ControlPlane
    images: Registry
    node: Node
    namespace: str

    def apply(self, *manifests: JsonObject) -> None:
        self.cluster.apply(*manifests, namespace=self.namespace)

    def pod(self, name: str) -> JsonObject:
        return self.cluster.client.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def await_phase(self, name: str, *phases: str) -> JsonObject:
        """The pod, once it is in one of the phases."""
        self.until(lambda: self._status(name)["phase"] in phases, f"pod {name} is {' or '.join(phases)}")
        return self.pod(name)

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for something on the node; raise with what the node said when it does not come."""
        try:
            polling.until(is_so, what, timeout_s=POD_TIMEOUT_S, poll_s=0.3)
        except RigError as error:
            raise RigError(f"{error}\n{self.node.logs()}") from error

    def waiting_reason(self, name: str) -> str:
        """Why the pod's first container does not run, empty when it does or was not looked at yet."""
        statuses = self._status(name).get("containerStatuses", [])
        return str(statuses[0]["state"].get("waiting", {}).get("reason", "")) if statuses else ""

    def logs(self, name: str) -> str:
        return self.cluster.kubectl("logs", "--namespace", self.namespace, name).stdout

    def state(self) -> str:
        """What the node's kernel says."""
        return self.node.read("/sys/kernel/sched_ext/state")

    def _status(self, name: str) -> JsonObject:
        status: JsonObject = self.pod(name)["status"]
        return status


@pytest.fixture(scope="session")
def fleet() -> Iterator[tuple[ControlPlane, Registry, Node]]:
    """A control plane, its registry, and one node with a 7.x kernel."""
    names.learn()
    with controlplane.running("e2e") as cluster, node.registry_for(cluster) as images:
        (only,) = node.plan(cluster, images, ["7"])
        with node.running(only):
            yield cluster, images, only


@pytest.fixture
def site(fleet: tuple[ControlPlane, Registry, Node]) -> Iterator[Site]:
    """A namespace of the test's own, with the default service account in it."""
    cluster, images, only = fleet
    name = f"test-{next(_numbers)}"
    cluster.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    polling.until(lambda: cluster.client.find(account), f"{name} has a service account")
    yield Site(cluster, images, only, name)
    cluster.client.delete(f"/api/v1/namespaces/{name}")
