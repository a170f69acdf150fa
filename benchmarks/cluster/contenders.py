"""The programs that are compared, each as a process whose caches can be asked and whose costs are counted."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster import processes
from rig.base.processes import Process, free_port
from rig.build import golang
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject

ROOT = Path(__file__).parents[2]
_PEER = Path(__file__).parent / "peer"
_SYNCS_WITHIN_S = 600
_READING = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Contender:
    """How one of them is called, and how it is started."""

    name: str
    flags: tuple[str, ...] = ()

    def argv(self, kubeconfig: Path, port: int) -> list[str | Path]:
        """Its command line: whose API server, and on which port it answers."""
        if self is OURS:
            program = [sys.executable, "-m", "benchmarks.cluster.ours", str(port)]
            return [*program, "--kubeconfig", kubeconfig, *_servers()]
        peer = golang.build("peer", _PEER)
        return [peer, "-kubeconfig", kubeconfig, "-query-address", f"127.0.0.1:{port}", *self.flags]


OURS = Contender("sked")
# as many workers as ours has for DaemonSets
PEER = Contender("peer", ("-qps", "-1", "-workers", "16"))
# What controller-runtime set for years, with its one worker. client-go's own default is a quarter of it;
# current controller-runtime sets none.
LIMITED_PEER = Contender("peer with rate limits", ("-qps", "20", "-burst", "30", "-workers", "1"))


def _servers() -> Iterator[str]:
    """Probes and metrics are served as in a real deployment, but to this machine alone."""
    for what in ("health-probe", "metrics"):
        yield f"--{what}-bind-address=127.0.0.1:{free_port()}"


class Running:
    """A contender's process."""

    def __init__(self, process: Process, port: int, writes: Callable[[], int]) -> None:
        self._process, self._port, self._writes = process, port, writes

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU so far."""
        return processes.cpu_s(self._process.pid)

    @property
    def memory(self) -> processes.Memory:
        """What it holds now."""
        return processes.memory(self._process.pid)

    @property
    def writes(self) -> int:
        """How often it has asked the API server to change something."""
        return self._writes()

    def counts(self) -> Mapping[str, int]:
        """How many objects of each kind its caches hold; empty until they are full."""
        return self._ask("/counts") or {}

    def node(self, name: str) -> JsonObject | None:
        """Labels and taints of a node, as its cache has them; None if it knows no such node."""
        return self._ask(f"/nodes/{name}")

    def await_synced(self) -> None:
        """Return when its caches are full."""
        self._process.await_ready(lambda: bool(self.counts()), timeout_s=_SYNCS_WITHIN_S, poll_s=0.02)

    def _ask(self, path: str) -> JsonObject | None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            found: JsonObject | None = json.loads(response.read()) if response.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return found


@contextmanager
def running(cluster: ControlPlane, contender: Contender) -> Iterator[Running]:
    """The contender for the length of the block, from the moment on at which its process exists."""
    port, user = free_port(), contender.name.replace(" ", "-")
    argv: Sequence[str | Path] = contender.argv(cluster.user(user, group="system:masters"), port)
    since = cluster.audit_log.position()
    process = Process(argv, log=cluster.folder / f"{user}.log", env=_environment(), cwd=ROOT)
    try:
        yield Running(process, port, lambda: count_writes(cluster, user, since))
    finally:
        process.stop()


def count_writes(cluster: ControlPlane, user: str, since: int) -> int:
    """How many requests of that user after that position of the audit log were to change something."""
    return sum(event.verb not in _READING for event in cluster.audit(since=since, user=user))


def _environment() -> dict[str, str]:
    """None of the variables that would tell one of them something."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SKED_", "KUBE", "GO"))}
