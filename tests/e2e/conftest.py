"""One cluster with one real node for the whole tier; each test has a namespace of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig.base import host_names, polling
from rig.base.errors import RigError
from rig.builders import kubernetes_objects
from rig.cluster import controlplane, node
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.cluster.node import Node
from rig.registries.registry import Registry

POD_TIMEOUT_S = 420  # half a minute on a quiet machine, minutes when two guests share two busy cores


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

    def pods_of(self, app: str) -> list[JsonObject]:
        """The pods that a DaemonSet has now."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return self.cluster.client.items(path, labelSelector=f"app={app}")

    def last_words(self, app: str) -> str:
        """What a container of the DaemonSet said at its end; empty as long as none has ended."""
        statuses = [one for pod in self.pods_of(app) for one in pod["status"].get("containerStatuses", [])]
        states = [status[kind] for status in statuses for kind in ("state", "lastState")]
        return "".join(state["terminated"].get("message", "") for state in states if "terminated" in state)

    def logs(self, name: str) -> str:
        return self.cluster.kubectl("logs", "--namespace", self.namespace, name).stdout

    def enforce(self, standard: str) -> None:
        """Let the namespace refuse pods that do not meet a Pod Security standard; returns when it does."""
        labels = {"pod-security.kubernetes.io/enforce": standard}
        client, path = self.cluster.client, f"/api/v1/namespaces/{self.namespace}"
        client.patch(path, {"metadata": {"labels": labels}})
        privileged = kubernetes_objects.pod("refused", privileged=True, allowPrivilegeEscalation=True)
        polling.until(lambda: client.refusal(f"{path}/pods", privileged), f"{standard} is enforced")

    def push(self, layout: Path, name: str) -> str:
        """Put an image into the registry; its reference by digest under the name that all share."""
        digest = self.images.client.push(layout, f"rig/{name}", "1")
        return f"{self.images.named_host}/rig/{name}@{digest}"

    def state(self) -> str:
        """What the node's kernel says."""
        return self.node.read("/sys/kernel/sched_ext/state")

    def _status(self, name: str) -> JsonObject:
        status: JsonObject = self.pod(name)["status"]
        return status


@pytest.fixture(scope="session")
def fleet() -> Iterator[tuple[ControlPlane, Registry, Node]]:
    """A control plane, its registry, and one node with a 7.x kernel."""
    host_names.learn()
    with controlplane.running("e2e") as cluster, node.registry_for(cluster) as images:
        (only,) = node.plan(cluster, images, ["7"])
        with node.running(only):
            yield cluster, images, only


@pytest.fixture
def site(fleet: tuple[ControlPlane, Registry, Node]) -> Iterator[Site]:
    """A namespace of the test's own, with the default service account in it."""
    cluster, images, only = fleet
    name = cluster.create_namespace()
    yield Site(cluster, images, only, name)
    cluster.client.delete(f"/api/v1/namespaces/{name}")
