"""A namespace on a cluster with a real node, and what tests and users do there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rig.base import polling
from rig.base.errors import RigError
from rig.builders import kubernetes_objects
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.cluster.node import Node
from rig.guest import holders
from rig.guest.schedulers import catalog
from rig.operator import realnode
from rig.operator.installation import ACCOUNT
from rig.operator.manager import SchedExts
from rig.operator.trustrules import SignedImages
from rig.registries.registry import Registry

Fleet = tuple[ControlPlane, Registry, Node]
NAME = "scx"
REPORTS = "/apis/sked.schedkit.io/v1/schedextnodes"
POD_TIMEOUT_S = 420  # half a minute on a quiet machine, minutes when two guests share two busy cores
_TOLD_S = 60  # a pod's start takes most of it


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


@dataclass(frozen=True)
class Stage:
    """One SchedExt at a time, in the namespace of a test."""

    site: Site
    signed: SignedImages
    schedexts: SchedExts

    def push(self, name: str, *, sign: bool = True) -> str:
        """The image of a scheduler by tag, under the name that host, node and pods share."""
        return realnode.push(self.signed, name, sign=sign)

    def attach(self, name: str) -> None:
        """A SchedExt with that scheduler, proved to be attached."""
        self.schedexts.create(NAME, sched=self.push(name))
        self.await_ops(name)
        self.schedexts.await_reason("Ready", "Attached", NAME, timeout_s=2 * _TOLD_S)

    def told(self) -> set[str]:
        """The reasons of all events in the namespace."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.site.namespace}/events"
        return {each["reason"] for each in self.site.cluster.client.items(path)}

    def await_ops(self, name: str) -> None:
        """Until the node's kernel runs that scheduler."""
        wanted = ("enabled", catalog()[name].ops_name)
        self.site.until(lambda: (self.site.state(), self._ops()) == wanted, f"the kernel runs {name}")

    def await_none(self) -> None:
        self.site.until(lambda: self.site.state() == "disabled", "the kernel runs its own scheduler")

    def owners(self) -> set[str]:
        """The uids of the pods that hold the attached scheduler, as the node's kernel shows it."""
        return holders.pods_with_links(self.site.node.guest)

    def schedctl(self, verb: str) -> str:
        """What `schedctl` from this checkout says on the node."""
        program = Path(sys.executable).with_name("schedctl")
        return self.site.node.guest.run(f"'{program}' {verb}").output

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
        found = self.site.cluster.client.find(f"{REPORTS}/{self.site.node.name}")
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
        return self.schedexts.await_reason("Ready", reason, NAME, timeout_s=_TOLD_S)

    def nodes(self) -> JsonObject:
        """How the SchedExt counts its nodes."""
        found: JsonObject = self.schedexts.get(NAME)["status"]["nodes"]
        return found

    def stays_without_daemon_set(self, *, for_s: float) -> bool:
        return polling.stays_untrue(lambda: self.schedexts.daemon_set(NAME), for_s=for_s)

    def was_refused_daemon_sets(self) -> bool:
        """Whether the API server has let the manager make none in this namespace."""
        cluster, namespace = self.site.cluster, self.site.namespace
        return any(cluster.audit(user=ACCOUNT, resource="daemonsets", namespace=namespace, code=403))

    def uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def _ops(self) -> str:
        return self.site.node.read("/sys/kernel/sched_ext/root/ops")
