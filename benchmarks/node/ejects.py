"""From an eject to the SchedExt's status: kernels are replayed; agents, API server and manager are real."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.cluster.api import Api
from benchmarks.node.replay import Replayed
from rig.base import polling
from rig.base.errors import RigError
from rig.base.processes import LEASH
from rig.base.progress import step
from rig.cluster import controlplane, fakenodes
from rig.cluster.controlplane import ControlPlane
from rig.operator import agents, manager
from schedkit.model.api.schedext import GROUP, PLURAL, VERSION

_HERE = Path(__file__).parent
_A_SECOND = 6  # ejects: of 200 nodes each is then ejected twice a minute, which is four writes
_TIMEOUT_S = 240.0


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Object


def measure(nodes: int, ejects: int) -> list[float]:
    """Seconds, one for each eject; every node has a SchedExt of its own."""
    with (
        controlplane.running("bench-ejects", fake_nodes=True) as cluster,
        fakenodes.running(cluster, nodes) as fleet,
    ):
        manager.install_crd(cluster)
        agents.install(cluster)
        namespace = cluster.create_namespace("bench")
        for name in fleet.names:
            cluster.client.create(_path(namespace), _schedext(name))
        with (
            manager.running(cluster, "bench"),
            _replay(_replayed(cluster, namespace, fleet.names), cluster) as tell,
        ):
            return asyncio.run(_run(cluster, _path(namespace), fleet.names, ejects, tell))


def _path(namespace: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"


def _schedext(node: str) -> dict[str, object]:
    spec = {"sched": manager.IMAGE, "nodeSelector": {"kubernetes.io/hostname": node}}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "SchedExt", "metadata": {"name": node}, "spec": spec}


def _replayed(cluster: ControlPlane, namespace: str, names: list[str]) -> list[Replayed]:
    """Each node with the pod whose scheduler it runs."""

    def pods() -> dict[str, str]:
        found = cluster.client.items(f"/api/v1/namespaces/{namespace}/pods")
        running = (each for each in found if each["status"].get("phase") == "Running")
        return {each["spec"]["nodeName"]: each["metadata"]["uid"] for each in running}

    with step(f"{len(names)} SchedExts with a pod each"):
        polling.until(lambda: len(pods()) == len(names), "every SchedExt has its pod", timeout_s=_TIMEOUT_S)
    uids = pods()
    boots = {
        each["metadata"]["name"]: each["status"]["nodeInfo"]["bootID"]
        for each in cluster.client.items("/api/v1/nodes")
    }
    return [
        Replayed(
            name,
            boots[name],
            uids[name],
            str(agents.TokenFile(cluster, name).kubeconfig),
            str(cluster.folder / f"kernel-{name}"),
        )
        for name in names
    ]


class Teller:
    """Tells the replayed kernels what to do."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, word: str, node: str) -> None:
        """To that node's."""
        if self._process.stdin is None or self._process.poll() is not None:
            raise RigError("the replayed agents have ended")
        self._process.stdin.write(f"{word} {node}\n")
        self._process.stdin.flush()


@contextmanager
def _replay(nodes: list[Replayed], cluster: ControlPlane) -> Iterator[Teller]:
    file = cluster.folder / "replayed.json"
    file.write_bytes(msgspec.json.encode(nodes))
    words = [*LEASH, sys.executable, "-m", "benchmarks.node.replay", str(file)]
    with (
        (cluster.folder / "replay.log").open("wb") as log,
        subprocess.Popen(words, stdin=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            yield Teller(process)
        finally:
            process.terminate()


class _Reasons:
    """What each SchedExt says of `Ready`, and since when it was seen to."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self.changed: dict[str, asyncio.Event] = {}

    async def follow(self, api: Api, path: str) -> None:
        listed = json.loads(await api.send("GET", path))
        version = listed["metadata"]["resourceVersion"]
        for each in listed["items"]:
            self._take(msgspec.convert(each, _Object))
        while True:
            async for line in api.watch(path, version):
                event = msgspec.json.decode(line, type=_Event)
                version = event.object.metadata.resource_version
                self._take(event.object)

    def _take(self, schedext: _Object) -> None:
        ready = [each for each in schedext.status.conditions if each.type == "Ready"]
        name = schedext.metadata.name
        self.now[name] = ("True" if ready[0].status == "True" else ready[0].reason) if ready else ""
        self.changed.setdefault(name, asyncio.Event()).set()

    async def until(self, name: str, reason: str) -> float:
        changed = self.changed.setdefault(name, asyncio.Event())
        async with asyncio.timeout(_TIMEOUT_S):
            while self.now.get(name) != reason:
                changed.clear()
                await changed.wait()
        return time.monotonic()


async def _run(cluster: ControlPlane, path: str, names: list[str], ejects: int, tell: Teller) -> list[float]:
    seen = _Reasons()
    async with Api(cluster.kubeconfig) as api:
        following = asyncio.create_task(seen.follow(api, path))
        with step(f"{len(names)} nodes attached"):
            await asyncio.gather(*(seen.until(name, "True") for name in names))
        await asyncio.sleep(60)  # the writes of the start are forgotten by the limit
        with step(f"{ejects} ejects"):
            turns = []
            for number in range(ejects):
                turns.append(asyncio.create_task(_eject(seen, names[number % len(names)], tell)))
                await asyncio.sleep(1 / _A_SECOND)
            found = await asyncio.gather(*turns)
        following.cancel()
        return list(found)


async def _eject(seen: _Reasons, name: str, tell: Teller) -> float:
    began = time.monotonic()
    tell("eject", name)
    took_s = await seen.until(name, "Ejected") - began
    tell("attach", name)
    await seen.until(name, "True")
    return took_s
