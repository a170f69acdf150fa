"""What it costs to know a big fleet: time to fill the caches, memory, and CPU while its nodes change.

The fleet is built by real parts: the controller manager makes the pods, the scheduler places them, and the
stand-in for kubelets runs them. Then sked brings every status up to date, once. After that the controllers
are stopped, so that nothing changes but what the benchmark changes: each contender finds the same fleet with
nothing to do.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from benchmarks.cluster.api import MERGE_PATCH, Api, in_parallel
from benchmarks.cluster.contenders import OURS, Contender, Running, running
from benchmarks.cluster.objects import ROUND_LABEL, Bodies, bench_node, group_name, schedexts_path
from benchmarks.cluster.processes import Memory
from benchmarks.cluster.sizes import Sizes
from benchmarks.cluster.witness import Witness
from rig import polling
from rig.controlplane import ControlPlane
from rig.errors import RigError
from rig.fakenodes import FakeNodes
from rig.progress import step

_TIMEOUT_S = 1800
_ASKED = 50  # nodes about which each cache is asked


@dataclass(frozen=True, slots=True)
class FleetCost:
    """One contender's round."""

    who: str
    sync_s: float  # from the start of its process until its caches were full
    sync_cpu_s: float
    memory: Memory  # after a rest
    updates_cpu_s: float  # while every node changed once
    memory_after: Memory  # after these changes


class Fleet:
    """A fleet in which every SchedExt has settled."""

    def __init__(self, cluster: ControlPlane, api: Api, namespace: str, sizes: Sizes) -> None:
        self._cluster, self._api, self._namespace, self._sizes = cluster, api, namespace, sizes
        self._names = [bench_node(index, sizes.schedexts)["metadata"]["name"] for index in range(sizes.nodes)]
        self._round = 0

    @asynccontextmanager
    async def built(self) -> AsyncIterator[None]:
        """All objects are there and at rest for the length of the block."""
        kubelets = FakeNodes(self._cluster, pool="bench")
        try:
            with step(f"building a fleet of {self._sizes.nodes} nodes"):
                await in_parallel(self._create_node, range(self._sizes.nodes))
                kubelets.kubelets.start()
                await self._deploy()
            self._cluster.component("kube-controller-manager").stop()
            self._cluster.component("kube-scheduler").stop()
            yield
        finally:
            kubelets.kubelets.stop()

    async def _create_node(self, index: int) -> None:
        body = msgspec.json.encode(bench_node(index, self._sizes.schedexts))
        await self._api.send("POST", "/api/v1/nodes", body)

    async def _deploy(self) -> None:
        bodies = [
            Bodies(self._namespace, f"fleet-{index:05d}", group_name(index))
            for index in range(self._sizes.schedexts)
        ]
        path = schedexts_path(self._namespace)
        with running(self._cluster, OURS) as process:
            process.await_synced()
            async with Witness(self._api, self._namespace, reason="PodsSettled") as witness:
                await in_parallel(lambda each: self._api.send("POST", path, each.schedext), bodies)
                await witness.all_reported([each.name for each in bodies], timeout_s=_TIMEOUT_S)

    async def measure(self, contender: Contender) -> FleetCost:
        """Start it, let it rest, change every node, and see what it costs."""
        started = time.monotonic()
        with running(self._cluster, contender) as process:
            process.await_synced()
            sync_s, sync_cpu_s = time.monotonic() - started, process.cpu_s
            await asyncio.sleep(self._sizes.rest_s)
            await self._prove(process)
            memory, spent = process.memory, process.cpu_s
            await self._change_every_node(process)
            if process.writes:
                raise RigError(f"{contender.name} wrote {process.writes} times where nothing was to be done")
            return FleetCost(
                who=contender.name,
                sync_s=sync_s,
                sync_cpu_s=sync_cpu_s,
                memory=memory,
                updates_cpu_s=process.cpu_s - spent,
                memory_after=process.memory,
            )

    async def _prove(self, process: Running) -> None:
        """The caches hold everything: one that keeps less would be compared unfairly."""
        sizes = self._sizes
        whole = {"nodes": sizes.nodes, "pods": sizes.nodes} | dict.fromkeys(
            ("daemonsets", "schedexts"), sizes.schedexts
        )
        if (counts := process.counts()) != whole:
            raise RigError(f"the caches hold {counts}, and there are {whole}")
        for name in random.sample(self._names, min(_ASKED, sizes.nodes)):
            await self._prove_node(process, name)

    async def _prove_node(self, process: Running, name: str) -> None:
        node = json.loads(await self._api.send("GET", f"/api/v1/nodes/{name}"))
        wanted = {"labels": node["metadata"]["labels"], "taints": node["spec"].get("taints", [])}
        await polling.soon(
            lambda: process.node(name) == wanted, f"the cache knows of {name} {wanted}", poll_s=0.2
        )

    async def _change_every_node(self, process: Running) -> None:
        """Each node gets a new label value; the cache knows them all in the end."""
        self._round += 1
        patch = msgspec.json.encode({"metadata": {"labels": {ROUND_LABEL: str(self._round)}}})
        await in_parallel(
            lambda name: self._api.send("PATCH", f"/api/v1/nodes/{name}", patch, kind=MERGE_PATCH),
            self._names,
        )
        await self._prove(process)
