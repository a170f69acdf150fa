"""A real Kubernetes control plane on loopback: etcd, API server, controller manager and scheduler.

It has its own certificate authority, ports, data and logs in one run folder, so that any number of
them live side by side, and it ends with the process that started it, however that ends.
"""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

from rig.base import polling, processes
from rig.base.addresses import HOST_SEEN_FROM_GUESTS
from rig.base.certificates import Authority, KeyPair
from rig.base.errors import RigError
from rig.base.processes import is_listening
from rig.cluster import audit, controlflags, kubernetes
from rig.cluster.components import Component
from rig.cluster.controlflags import Layout
from rig.cluster.kubeclient import ApiError, Client, JsonObject, certificate_user, write_kubeconfig

_SILENT_SCHEDULER = 30  # the last minor whose scheduler has no `/readyz`


@dataclass(frozen=True)
class NodeIdentity:
    """What a kubelet needs to join: its own name, certificates and kubeconfig."""

    name: str
    ca_file: Path
    kubeconfig: Path
    serving: KeyPair


class ControlPlane:
    """One control plane; `start` returns when the API server is ready and the others work."""

    def __init__(self, folder: Path, *, fake_nodes: bool = False) -> None:
        self.folder = folder
        self.programs = kubernetes.binaries()
        authority = Authority(folder / "pki", common_name="kubernetes")
        self.layout = Layout(folder, authority, fake_nodes)
        self.server = f"https://127.0.0.1:{self.layout.ports.api}"
        self.kubeconfig = self.user("admin", group="system:masters")
        self.audit_log = audit.AuditLog(self.layout.audit_log)
        self.client = Client(self.kubeconfig)
        self._hosts = folder / "hosts"
        self.components = self._components()

    # Life

    def start(self) -> None:
        etcd, apiserver, *workers = self.components
        etcd.start(wait=False)  # the API server itself waits for etcd
        apiserver.start()
        for worker in workers:
            worker.start(wait=False)
        for worker in workers:
            worker.await_ready()

    def stop(self) -> None:
        """End all components, the last started first."""
        for component in reversed(self.components):
            component.stop(grace_s=5)

    def component(self, name: str) -> Component:
        """`etcd`, `kube-apiserver`, `kube-controller-manager` or `kube-scheduler`."""
        for component in self.components:
            if component.name == name:
                return component
        known = ", ".join(component.name for component in self.components)
        raise RigError(f"this control plane has no {name!r}: it has {known}")

    @property
    def apiserver(self) -> Component:
        return self.component("kube-apiserver")

    @property
    def controller_manager(self) -> Component:
        return self.component("kube-controller-manager")

    def is_ready(self) -> bool:
        """Whether the API server says so itself."""
        try:
            return self.client.text("/readyz") == "ok"
        except (ApiError, OSError):
            return False

    # Identities

    def user(self, name: str, *, group: str | None = None) -> Path:
        """The kubeconfig of a user with a certificate of its own."""
        return self._kubeconfig(name, certificate_user(self.layout.pair(name, group=group)), self.server)

    def service_account(self, namespace: str, name: str = "default") -> Client:
        """A client that holds a token of that service account and nothing else."""
        return Client(self.kubeconfig, token=self.token(namespace, name))

    def token(self, namespace: str, name: str = "default") -> str:
        """A fresh token of that service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made: str = self.client.create(path, request)["status"]["token"]
        return made

    def node(self, name: str, *, address: str = "127.0.0.1") -> NodeIdentity:
        """The identity of a node in a guest, whose kubelet the API server reaches at that host address."""
        pair = self.layout.pair(f"system:node:{name}", group="system:nodes")
        server = f"https://{HOST_SEEN_FROM_GUESTS}:{self.layout.ports.api}"
        kubeconfig = self._kubeconfig(f"node-{name}", certificate_user(pair), server)
        serving = self.layout.pair(f"kubelet-{name}", sans=(name, "localhost", address))
        with self._hosts.open("a") as hosts:  # in place: the API server sees this very file
            hosts.write(f"{address} {name}\n")
        return NodeIdentity(name, self.layout.authority.ca_file, kubeconfig, serving)

    def _kubeconfig(self, name: str, user: JsonObject, server: str) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        return write_kubeconfig(path, server=server, ca_file=self.layout.authority.ca_file, user=user)

    # Questions and orders

    def audit(self, *, since: int = 0, **filters: Unpack[audit.Filters]) -> Iterator[audit.AuditEvent]:
        """The finished requests that match; `since` is an earlier `audit_log.position()`."""
        return self.audit_log.events(since=since, **filters)

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        check: bool = True,
        timeout_s: float = 60,
        cwd: Path | None = None,
    ) -> processes.Completed:
        """Run kubectl as admin; raise with what it said when it fails."""
        argv = [str(self.programs / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        # an own home: kubectl keeps its discovery cache there, and clusters come and go on the same ports
        environment = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        return processes.run(argv, stdin=stdin, check=check, timeout_s=timeout_s, env=environment, cwd=cwd)

    def apply(self, *manifests: JsonObject | str, namespace: str = "default") -> str:
        """Server-side apply of objects, given as values or as YAML text; what kubectl says."""
        texts = [item if isinstance(item, str) else json.dumps(item) for item in manifests]
        arguments = ["apply", "--server-side", "--namespace", namespace, "-f", "-"]
        # begins with what is no JSON: older ones would take all for JSON, and stumble over the separators
        return self.kubectl(*arguments, stdin="\n---\n".join(("", *texts))).stdout

    def create_namespace(self, prefix: str = "test", **labels: str) -> str:
        """A namespace of its own name in which pods can be created at once."""
        meta = {"generateName": f"{prefix}-", "labels": labels}
        created = self.client.create("/api/v1/namespaces", {"metadata": meta})
        name: str = created["metadata"]["name"]
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        # a controller-manager that was cut off from the API server comes back ever more slowly
        polling.until(lambda: self.client.find(account), f"{name} has a service account", timeout_s=120)
        return name

    # Parts

    def _components(self) -> tuple[Component, ...]:
        layout, ports = self.layout, self.layout.ports
        hosts = with_hosts(self._hosts)
        controllers = controlflags.controllers(layout, self.user("system:kube-controller-manager"))
        scheduler = controlflags.scheduler(layout, self.user("system:kube-scheduler"))
        # the controller manager calls itself healthy before its controllers work, but names those that do
        controllers_work = self._check(ports.controllers, "/healthz", "daemonset-controller")
        scheduler_works = self._check(ports.scheduler, *_scheduler_check())
        return (
            self._component("etcd", controlflags.etcd(layout), ready=partial(is_listening, ports.etcd)),
            self._component(
                "kube-apiserver", controlflags.apiserver(layout), ready=self.is_ready, wrapper=hosts
            ),
            self._component("kube-controller-manager", controllers, ready=controllers_work),
            self._component("kube-scheduler", scheduler, ready=scheduler_works),
        )

    def _component(
        self, name: str, flags: Sequence[str], *, ready: Callable[[], bool], wrapper: Sequence[str] = ()
    ) -> Component:
        argv = [*wrapper, str(self.programs / name), *flags]
        return Component(argv, log=self.folder / f"{name}.log", ready=ready)

    def _check(self, port: int, path: str, name: str) -> Callable[[], bool]:
        """Asks a program whether one of its own health checks passes."""
        tls = ssl.create_default_context(cafile=self.layout.authority.ca_file)
        connect = partial(http.client.HTTPSConnection, "127.0.0.1", port, context=tls, timeout=5)
        return lambda: f"[+]{name} ok" in _answer(connect(), f"{path}?verbose")


def _scheduler_check() -> tuple[str, str]:
    """Where a scheduler says that it works; before 1.31 it says no more than that it listens."""
    _, second = kubernetes.minor(kubernetes.version())
    return ("/readyz", "sched-handler-sync") if int(second) > _SILENT_SCHEDULER else ("/healthz", "ping")


def _answer(connection: http.client.HTTPSConnection, path: str) -> str:
    """What a program says there; nothing while it cannot be reached."""
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def with_hosts(hosts: Path) -> Sequence[str]:
    """A wrapper under which `/etc/hosts` is that file, in a mount namespace that ends with the process."""
    hosts.write_text("127.0.0.1 localhost\n")
    if not processes.can_mount():
        return ()  # only logs and exec on nodes in guests need it, and such nodes need root anyway
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(hosts))


@contextmanager
def running(name: str = "cluster", *, fake_nodes: bool = False) -> Iterator[ControlPlane]:
    """A control plane for the length of the block; its folder goes with it."""
    folder = processes.run_folder(name)
    cluster = ControlPlane(folder, fake_nodes=fake_nodes)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
