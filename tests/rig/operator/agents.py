"""The agents of nodes: what they are installed with, tokens as their pods have them, and one as a process."""

from __future__ import annotations

import http.client
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.base import processes
from rig.base.processes import Process
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import Client, JsonObject, write_kubeconfig
from rig.operator import installation

NAMESPACE = "sked-node"
ACCOUNT = "sked-node-agent"
REPORTS = "/apis/sked.schedkit.io/v1/schedextnodes"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_TOKENS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{{}}/token"


def install(cluster: ControlPlane) -> None:
    """CRD, role, policy and all else of `config/agent`, but for the DaemonSet."""
    objects = [*installation.kustomized("crd"), *installation.kustomized("agent")]
    cluster.apply(*(each for each in objects if each["kind"] != "DaemonSet"), namespace=NAMESPACE)
    cluster.kubectl("wait", "--for=condition=Established", "crd/schedextnodes.sked.schedkit.io")


def token_on(cluster: ControlPlane, node: str, account: str = ACCOUNT) -> str:
    """A token as the kubelet gives it to a pod of that account on that node."""
    pod = _pod_on(cluster, node, account)
    bound = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound},
    }
    made: str = cluster.client.create(_TOKENS.format(account), request)["status"]["token"]
    return made


def _pod_on(cluster: ControlPlane, node: str, account: str) -> JsonObject:
    name = f"{account}-{node}"
    found = cluster.client.find(f"{_PODS}/{name}")
    spec = {
        "nodeName": node,
        "serviceAccountName": account,
        "containers": [{"name": "agent", "image": "registry.example/sked:v1"}],
    }
    meta = {"name": name, "labels": {"app.kubernetes.io/component": "node-agent"}}
    return found or cluster.client.create(_PODS, {"metadata": meta, "spec": spec})


def client_on(cluster: ControlPlane, node: str, account: str = ACCOUNT) -> Client:
    """A client with such a token, and nothing else."""
    return Client(cluster.kubeconfig, token=token_on(cluster, node, account))


def install_metrics(cluster: ControlPlane) -> None:
    """What agents may do beside the rest where they serve metrics, and the role of those who read them."""
    before = installation.by_name(installation.kustomized("default"))
    added = installation.by_name(installation.kustomized("agent-metrics"))
    reader = added["ClusterRole", "sked-metrics-reader"]
    cluster.apply(reader, *(each for name, each in added.items() if name not in before))


class TokenFile:
    """A token in a file, which the kubelet renews, and a kubeconfig that names it."""

    def __init__(self, cluster: ControlPlane, node: str) -> None:
        self._cluster, self._node = cluster, node
        self._file = cluster.folder / f"agent-{node}.token"
        self.renew()
        self.kubeconfig = write_kubeconfig(
            cluster.folder / f"agent-{node}.kubeconfig",
            server=cluster.server,
            ca_file=cluster.layout.authority.ca_file,
            user={"tokenFile": str(self._file)},
        )

    def renew(self) -> None:
        """Another token of the same pod, as it is now."""
        new = self._file.with_suffix(".new")
        new.write_text(token_on(self._cluster, self._node))
        new.rename(self._file)


class Agent:
    """`sked agent` from this checkout as a process, with the token of a pod on that node."""

    def __init__(
        self, cluster: ControlPlane, node: str, *, has_metrics: bool = False, kernel: Path | None = None
    ) -> None:
        self.node, self._cluster = node, cluster
        self.probes, self.metrics = processes.free_port(), processes.free_port()
        settings = {
            "kubeconfig": str(TokenFile(cluster, node).kubeconfig),
            "health-probe-bind-address": f"127.0.0.1:{self.probes}",
            "metrics-bind-address": f"127.0.0.1:{self.metrics}" if has_metrics else "0",
        }
        flags = [f"--{name}={value}" for name, value in settings.items()]
        program = [str(Path(sys.executable).with_name("sked"))]
        if kernel is not None:
            program = [sys.executable, str(Path(__file__).with_name("agentonfolder.py")), str(kernel)]
        self.process = Process([*program, "agent", *flags], log=cluster.folder / f"agent-{node}.log")

    def scrape(self, token: str | None) -> tuple[int, str]:
        """Code and words of the metrics page, whoever signed its certificate; 0: nobody answers."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.metrics, timeout=10, context=trusting)
        try:
            connection.request(
                "GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {}
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def report(self) -> JsonObject:
        """What it has written; empty: nothing yet."""
        found = self._cluster.client.find(f"{REPORTS}/{self.node}")
        return dict(found["status"]) if found else {}

    def is_ready(self) -> bool:
        """Whether it says so itself."""
        connection = http.client.HTTPConnection("127.0.0.1", self.probes, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()


@contextmanager
def running(
    cluster: ControlPlane, node: str, *, has_metrics: bool = False, kernel: Path | None = None
) -> Iterator[Agent]:
    """An agent that has said that it is ready, on this machine's kernel or on one in a folder."""
    agent = Agent(cluster, node, has_metrics=has_metrics, kernel=kernel)
    try:
        agent.process.await_ready(agent.is_ready, timeout_s=60)
        yield agent
    finally:
        agent.process.stop()
