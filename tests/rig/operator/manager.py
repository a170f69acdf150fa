"""`sked manager` from this checkout as a process, and the SchedExts that users write."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from rig.base import polling, processes
from rig.base.errors import RigError
from rig.base.processes import Process
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import ApiError, JsonObject
from rig.operator import permissions

ROOT = Path(__file__).parents[3]
CRD = ROOT / "config/crd/bases/sked.schedkit.io_schedexts.yaml"
REPORTS_CRD = ROOT / "config/crd/bases/sked.schedkit.io_schedextnodes.yaml"
IMAGE = "ghcr.io/schedkit/scx_rusty:v1"


GROUP = "sked-managers"


def install_crd(cluster: ControlPlane) -> None:
    """The CRDs of this tree, served, and the permissions of this tree for managers."""
    role = _permissions("role.yaml")
    binding = _binding("ClusterRole", role["metadata"]["name"])
    cluster.apply(CRD.read_text(), REPORTS_CRD.read_text(), role, binding)
    names = (f"crd/{plural}.sked.schedkit.io" for plural in ("schedexts", "schedextnodes"))
    cluster.kubectl("wait", "--for=condition=Established", *names)


def let_lead(cluster: ControlPlane, namespace: str) -> None:
    """Let managers have their lease in that namespace."""
    role = _permissions("leader_election_role.yaml")
    role["metadata"].pop("namespace", None)
    cluster.apply(role, _binding("Role", role["metadata"]["name"]), namespace=namespace)


def delete_schedexts(cluster: ControlPlane, namespace: str) -> None:
    """All of a namespace, gone when this returns; where the CRD is not installed there are none."""
    path = f"/apis/sked.schedkit.io/v1/namespaces/{namespace}/schedexts"
    if cluster.client.find(path) is not None:
        cluster.client.delete(path)


def _permissions(file: str) -> JsonObject:
    found: JsonObject = yaml.safe_load((ROOT / "config/rbac" / file).read_text())
    return found


def _binding(kind: str, role: str) -> JsonObject:
    """For every manager that a test starts, whatever its name."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": GROUP},
        "roleRef": {"apiGroup": group, "kind": kind, "name": role},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": GROUP}],
    }


class Manager:
    """One process; its name is its user at the API server, and in the audit log.

    It may do what an installed manager may do, and nothing else.
    """

    def __init__(
        self, cluster: ControlPlane, name: str = "sked", *flags: str, kubeconfig: Path | None = None
    ) -> None:
        self.name = name
        reached = kubeconfig or cluster.user(name, group=GROUP)
        if kubeconfig is None and any(flag.startswith("--leader-elect") for flag in flags):
            let_lead(cluster, _namespace(flags))
        self.probes, self.metrics = processes.free_port(), processes.free_port()
        ports = (
            f"--health-probe-bind-address=127.0.0.1:{self.probes}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics}",
        )
        program = str(Path(sys.executable).with_name("sked"))
        argv = [program, "manager", f"--kubeconfig={reached}", *ports, *flags]
        log = cluster.folder / f"{name}.log"
        # an earlier one of that name may have written there: its words are not this one's
        self._log_start = log.stat().st_size if log.exists() else 0
        self.process = Process(argv, log=log, env=_environment(cluster.folder))

    def log(self) -> str:
        """All that it said so far."""
        return self.process.log.read_bytes()[self._log_start :].decode()

    def says(self, word: str) -> list[JsonObject]:
        """The lines of its log about that, in order."""
        return [line for line in self.lines() if line["event"] == word]

    def lines(self) -> list[JsonObject]:
        """Its log, line by line."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def probe(self, path: str) -> tuple[int, str]:
        """Code and words of a probe; 0 while nobody answers."""
        return _get(http.client.HTTPConnection("127.0.0.1", self.probes, timeout=5), path)

    def scrape(self, token: str | None = None, *, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
        """Code and words of the metrics page; without `tls` whoever signed its certificate."""
        self.await_word("metrics_served")
        trusting = tls or _anybody()
        connection = http.client.HTTPSConnection("127.0.0.1", self.metrics, timeout=10, context=trusting)
        return _get(connection, "/metrics", {"Authorization": f"Bearer {token}"} if token else {})

    def scrape_plainly(self) -> tuple[int, str]:
        """The same with neither TLS nor a token."""
        self.await_word("metrics_served")
        return _get(http.client.HTTPConnection("127.0.0.1", self.metrics, timeout=10), "/metrics")

    def await_ready(self, *, timeout_s: float = 30) -> None:
        """Return when its caches are current."""
        self.process.await_ready(lambda: self.probe("/readyz") == (200, "ok\n"), timeout_s=timeout_s)

    def await_word(self, word: str, *, timeout_s: float = 30) -> None:
        """Return when its log has that word."""
        polling.until(lambda: word in self.log(), f"{self.name} says {word}", timeout_s=timeout_s)

    def terminate(self, *, within_s: float = 20) -> int:
        """SIGTERM; its exit code."""
        self.process.send(signal.SIGTERM)
        polling.until(lambda: self.process.exit_code() is not None, f"{self.name} ends", timeout_s=within_s)
        code = self.process.exit_code()
        assert code is not None
        return code


@contextmanager
def running(
    cluster: ControlPlane, name: str = "sked", *flags: str, kubeconfig: Path | None = None
) -> Iterator[Manager]:
    """A manager for the length of the block, ready when it begins; it asks for nothing it should not."""
    since = cluster.audit_log.position()
    manager = Manager(cluster, name, *flags, kubeconfig=kubeconfig)
    try:
        manager.await_ready()
        yield manager
    finally:
        manager.process.stop()
    if strange := permissions.beyond(cluster.audit(since=since, user=name)):
        raise RigError(f"{name} asked for what the table of its permissions does not have: {strange}")


def _anybody() -> ssl.SSLContext:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


def _get(
    connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError as error:
        return 0, str(error)
    finally:
        connection.close()


def _environment(folder: Path) -> dict[str, str]:
    """None of the variables that would tell a manager something; compiled once, wherever pytest runs."""
    telling = ("SKED_", "KUBE", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(telling)}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _namespace(flags: Sequence[str]) -> str:
    named = (flag.removeprefix("--namespace=") for flag in flags if flag.startswith("--namespace="))
    return next(named, "default")


class SchedExts:
    """The SchedExts of one namespace, and what became of them."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._client = cluster.client
        self._path = f"/apis/sked.schedkit.io/v1/namespaces/{namespace}/schedexts"
        self._daemon_sets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"

    def create(
        self, name: str = "scx", *, annotations: dict[str, str] | None = None, **spec: object
    ) -> JsonObject:
        meta = {"name": name, "annotations": annotations or {}}
        kind = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": meta}
        return self._client.create(self._path, {**kind, "spec": {"sched": IMAGE, **spec}})

    def change(self, name: str = "scx", **spec: object) -> JsonObject:
        """Merge these fields into its spec; None removes one."""
        return self._client.patch(f"{self._path}/{name}", {"spec": spec})

    def replace(self, name: str = "scx", **spec: object) -> JsonObject:
        """Give it this spec and nothing of the old one, as kubectl does: an unknown field is an error."""
        path = f"{self._path}/{name}?fieldValidation=Strict"
        return self._client.replace(path, {**self.get(name), "spec": spec})

    def every(self) -> list[JsonObject]:
        return self._client.items(self._path)

    def annotate(self, name: str = "scx", **notes: str) -> JsonObject:
        return self._client.patch(f"{self._path}/{name}", {"metadata": {"annotations": notes}})

    def get(self, name: str = "scx") -> JsonObject:
        return self._client.get(f"{self._path}/{name}")

    def delete(self, name: str = "scx") -> None:
        self._client.delete(f"{self._path}/{name}")

    def status(self, name: str = "scx") -> JsonObject:
        status: JsonObject = self.get(name).get("status", {})
        return status

    def condition(self, kind: str, name: str = "scx") -> JsonObject:
        """That condition; without any field if nobody has answered it."""
        conditions: Sequence[JsonObject] = self.status(name).get("conditions", ())
        return next((each for each in conditions if each["type"] == kind), {})

    def await_reason(self, kind: str, reason: str, name: str = "scx", *, timeout_s: float = 30) -> JsonObject:
        """The condition, as soon as it has that reason."""

        def probe() -> JsonObject | None:
            found = self.condition(kind, name)
            return found if found.get("reason") == reason else None

        return polling.until(probe, f"{name} is {kind} because of {reason}", timeout_s=timeout_s)

    def daemon_set(self, name: str = "scx") -> JsonObject | None:
        return self._client.find(f"{self._daemon_sets}/{name}")

    def await_daemon_set(self, name: str = "scx") -> JsonObject:
        return polling.until(lambda: self.daemon_set(name), f"the DaemonSet {name} is there")

    def edit_daemon_set(self, patch: JsonObject, name: str = "scx") -> JsonObject:
        """As somebody with kubectl edit would."""
        return self._client.patch(f"{self._daemon_sets}/{name}", patch)

    def pods(self) -> list[JsonObject]:
        return self._client.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def refusal(self, name: str = "scx", **spec: object) -> ApiError | None:
        """Why such a SchedExt cannot be created; None if it could."""
        kind = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": name}}
        return self._client.refusal(self._path, {**kind, "spec": {"sched": IMAGE, **spec}})
