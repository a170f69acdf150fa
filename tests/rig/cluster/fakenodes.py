"""Fake nodes on demand: realistic Node objects that are Ready, and a stand-in for their kubelets.

The objects are as big as those of a busy fleet, because size is what clients of the API server pay
for. By hand: `python -m rig.cluster.fakenodes KUBECONFIG COUNT`.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from rig.cluster import kubernetes
from rig.cluster.components import Component
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import Client, JsonObject

POOL_LABEL = "rig.schedkit.io/fake-nodes"
_WRITERS = 4
_IMAGES = 50  # a kubelet reports no more
_TEAMS = ("platform", "payments", "observability", "machine-learning", "edge-gateway", "customer-data")
_PARTS = (
    "controller",
    "exporter",
    "sidecar-proxy",
    "batch-worker",
    "node-agent",
    "frontend",
    "migration-runner",
)
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class FakeNodes:
    """A pool of fake nodes in a control plane that was started with `fake_nodes=True`.

    The clocks of these nodes are `behind_s` late: their pods seem to run for that long as soon as they start.
    """

    def __init__(self, cluster: ControlPlane, *, pool: str = "fake", behind_s: float = 0) -> None:
        self.pool = pool
        self.selector = {POOL_LABEL: pool}
        self.names: list[str] = []
        self._client = cluster.client
        kubeconfig = cluster.user(f"fake-kubelets-{pool}", group="system:masters")
        log = cluster.folder / f"fake-kubelets-{pool}.log"
        argv = [sys.executable, "-m", "rig.cluster.fakekubelets", str(kubeconfig), pool, str(behind_s)]
        self.kubelets = Component(argv, log=log, ready=self._are_watching, env=_environment())

    def _are_watching(self) -> bool:
        """Whether the process of now says so: the log has the words of earlier ones, too."""
        kubelets = self.kubelets
        return kubelets.is_running and f"process {kubelets.pid} is watching" in kubelets.log.read_text()

    def add(self, count: int) -> None:
        """Create that many more nodes, Ready from the first moment."""
        indices = range(len(self.names), len(self.names) + count)
        self.names += create(self._client, self.pool, indices)

    def remove(self) -> None:
        """Delete all nodes of the pool."""
        self._client.delete("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={self.pool}")
        self.names.clear()


@contextmanager
def running(
    cluster: ControlPlane, count: int, *, pool: str = "fake", behind_s: float = 0
) -> Iterator[FakeNodes]:
    """That many fake nodes and their kubelets' stand-in, for the length of the block."""
    nodes = FakeNodes(cluster, pool=pool, behind_s=behind_s)
    try:
        nodes.add(count)
        nodes.kubelets.start()
        yield nodes
    finally:
        nodes.kubelets.stop()
        nodes.remove()


def create(client: Client, pool: str, indices: range) -> list[str]:
    """Create the pool's nodes with those numbers; their names."""

    def post(index: int) -> str:
        name: str = client.create("/api/v1/nodes", node_object(pool, index))["metadata"]["name"]
        return name

    with ThreadPoolExecutor(_WRITERS) as writers:
        return list(writers.map(post, indices))


def node_object(pool: str, index: int) -> JsonObject:
    """A Ready node as a kubelet and a cloud would describe it; the same for the same arguments."""
    name = f"{pool}-{index:05d}"
    chance = random.Random(name)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(pool, index, name), "annotations": _annotations(index)},
        "spec": {"providerID": f"example:///zone-{index % 3}/i-{chance.randbytes(8).hex()}"},
        "status": _status(name, index, chance),
    }


def _labels(pool: str, index: int, name: str) -> dict[str, str]:
    zone, kind = f"region-1{'abc'[index % 3]}", ("general-8", "compute-16")[index % 2]
    return {
        POOL_LABEL: pool,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": zone,
        "node-role.kubernetes.io/worker": "",
    }


def _annotations(index: int) -> dict[str, str]:
    networks = [f"10.{128 + index % 64}.{part}.0/28" for part in range(16)]
    return {
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "csi.volume.kubernetes.io/nodeid": f'{{"block.csi.example.com":"i-{index:017x}"}}',
        "network.example.com/pod-networks": ",".join(networks),
    }


def _status(name: str, index: int, chance: random.Random) -> JsonObject:
    size = {"cpu": "16", "memory": "65842104Ki", "pods": "110", "ephemeral-storage": "203070420Ki"}
    return {
        "capacity": size,
        "allocatable": size | {"cpu": "15890m", "memory": "64292472Ki"},
        "addresses": [
            {"type": "InternalIP", "address": f"10.{64 + index // 65536}.{index // 256 % 256}.{index % 256}"},
            {"type": "Hostname", "address": name},
        ],
        "conditions": _conditions(),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(chance),
        "images": [_image(number) for number in chance.sample(range(10 * _IMAGES), _IMAGES)],
        "runtimeHandlers": [
            {"name": "runc", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": True}}
        ],
    }


def _conditions() -> list[JsonObject]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    names = ("type", "status", "reason", "message")
    return [dict(zip(names, row, strict=True)) | times for row in _HEALTHY]


def _node_info(chance: random.Random) -> JsonObject:
    return {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "osImage": "Debian GNU/Linux 13 (trixie)",
        "kernelVersion": chance.choice(["6.12.48+deb13-amd64", "6.18.15+deb14-amd64", "7.2.12+deb14-amd64"]),
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": kubernetes.version(),
        "kubeProxyVersion": "",
        "machineID": chance.randbytes(16).hex(),
        "systemUUID": _uuid(chance),
        "bootID": _uuid(chance),
    }


def _uuid(chance: random.Random) -> str:
    text = chance.randbytes(16).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _image(number: int) -> JsonObject:
    """One of the fleet's images; the same number is the same image on every node."""
    team, part = _TEAMS[number % len(_TEAMS)], _PARTS[number % len(_PARTS)]
    repository = f"registry.example.com/{team}/production/{team}-{part}-{number:03d}"
    digest = hashlib.sha256(repository.encode()).hexdigest()
    names = [f"{repository}@sha256:{digest}", f"{repository}:v1.{number % 40}.{number % 7}-{digest[:12]}"]
    return {"names": names, "sizeBytes": 20_000_000 + number * 1_234_567}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}


def main(kubeconfig: str, count: str) -> None:
    """Create fake nodes in a cluster by hand and stand in for their kubelets until Ctrl-C."""
    from rig.cluster import fakekubelets  # it imports this module

    names = create(Client(Path(kubeconfig)), "fake", range(int(count)))
    print(f"created {names[0]} to {names[-1]}; Ctrl-C ends their kubelets, the nodes stay", flush=True)
    fakekubelets.main(kubeconfig, "fake")


if __name__ == "__main__":
    main(*sys.argv[1:])
