"""What it costs to know a big fleet: time to fill the caches, memory, and CPU while its nodes change.

Nobody controls DaemonSets here: the fleet's pods are written as their controller and kubelets would write
them, which takes those very long with thousands of both. Then sked brings every status up to date, once: each
contender finds the same fleet with nothing to do, and nothing changes but what the benchmark changes.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import random
import time
from dataclasses import dataclass

import msgspec

from benchmarks.cluster.api import MERGE_PATCH, Api, in_parallel
from benchmarks.cluster.contenders import OURS, Contender, Running, running
from benchmarks.cluster.objects import (
    AGENTS_PATH,
    REPORTS_PATH,
    ROUND_LABEL,
    Bodies,
    bench_agent,
    bench_node,
    bench_pod,
    bench_report,
    complete_status,
    daemon_sets_path,
    group_name,
    schedexts_path,
)
from benchmarks.cluster.processes import Memory
from benchmarks.cluster.sizes import Sizes
from benchmarks.cluster.witness import Witness
from rig.base import polling
from rig.base.errors import RigError
from rig.base.progress import step
from rig.cluster import fakekubelets
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject

_TIMEOUT_S = 1800
_BEGAN = "2020-01-01T00:00:00Z"  # long enough ago to have settled
_ASKED = 50  # nodes about which each cache is asked


@dataclass(frozen=True, slots=True)
class FleetCost:
    """One contender's round."""

    who: str
    sync_s: float  # from the start of its process until its caches were full
    sync_cpu_s: float
    memory: Memory  # after a rest
    updates_cpu_s: float  # while every node changed once
    reports_cpu_s: float  # while every report was written once more
    memory_after: Memory  # after these changes


class Fleet:
    """A fleet in which every SchedExt has settled."""

    def __init__(self, cluster: ControlPlane, api: Api, namespace: str, sizes: Sizes) -> None:
        self._cluster, self._api, self._namespace, self._sizes = cluster, api, namespace, sizes
        self._names = [bench_node(index, sizes.schedexts)["metadata"]["name"] for index in range(sizes.nodes)]
        self._addresses = fakekubelets.Addresses()
        self._nodes: dict[str, JsonObject] = {}
        self._round = 0

    async def build(self) -> None:
        """Make all objects, and leave them when every status says that pods have settled."""
        groups = range(self._sizes.schedexts)
        with step(f"building a fleet of {self._sizes.nodes} nodes"):
            await in_parallel(self._create_node, range(self._sizes.nodes))
            await in_parallel(self._create_group, groups)
            await self._report([_name(group) for group in groups])

    async def _create_node(self, index: int) -> None:
        node = await self._write("POST", "/api/v1/nodes", bench_node(index, self._sizes.schedexts))
        self._nodes[node["metadata"]["name"]] = node

    async def _create_group(self, group: int) -> None:
        """A SchedExt with its DaemonSet and pods, all of which have run for a while."""
        bodies = Bodies(self._namespace, _name(group), group_name(group))
        made = json.loads(await self._api.send("POST", schedexts_path(self._namespace), bodies.schedext))
        path = daemon_sets_path(self._namespace)
        body = bodies.daemon_set(made["metadata"]["uid"])
        daemon_set = json.loads(await self._api.send("POST", path, body))
        nodes = self._names[group :: self._sizes.schedexts]
        for node in nodes:
            pod = await self._create_pod(daemon_set, node)
            await self._create_agent(node)
            await self._write("POST", REPORTS_PATH, bench_report(self._nodes[node], pod))
        reported = daemon_set | {"status": complete_status(len(nodes))}
        await self._write("PUT", f"{path}/{bodies.name}/status", reported)

    async def _create_pod(self, daemon_set: JsonObject, node: str) -> JsonObject:
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        return await self._start(path, bench_pod(daemon_set, node))

    async def _create_agent(self, node: str) -> None:
        await self._start(AGENTS_PATH, bench_agent(node))

    async def _start(self, path: str, body: JsonObject) -> JsonObject:
        """A pod that has run for long, and is Ready."""
        pod = await self._write("POST", path, body)
        status = fakekubelets.next_status(pod, _BEGAN, self._addresses.of(pod))
        return await self._write("PUT", f"{path}/{pod['metadata']['name']}/status", pod | {"status": status})

    async def _write(self, method: str, path: str, body: JsonObject) -> JsonObject:
        answer: JsonObject = json.loads(await self._api.send(method, path, msgspec.json.encode(body)))
        return answer

    async def _report(self, names: list[str]) -> None:
        async with Witness(self._api, self._namespace, reason="PodsSettled") as witness:
            with running(self._cluster, OURS):
                await witness.all_reported(names, timeout_s=_TIMEOUT_S)

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
            updated = process.cpu_s
            await self._write_every_report()
            await self._prove(process)
            if process.writes:
                raise RigError(f"{contender.name} wrote {process.writes} times where nothing was to be done")
            return FleetCost(
                who=contender.name,
                sync_s=sync_s,
                sync_cpu_s=sync_cpu_s,
                memory=memory,
                updates_cpu_s=updated - spent,
                reports_cpu_s=process.cpu_s - updated,
                memory_after=process.memory,
            )

    async def _prove(self, process: Running) -> None:
        """The caches hold everything: one that keeps less would be compared unfairly."""
        sizes = self._sizes
        by_node, by_group = ("nodes", "pods", "agents", "reports"), ("daemonsets", "schedexts")
        whole = dict.fromkeys(by_node, sizes.nodes) | dict.fromkeys(by_group, sizes.schedexts)
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

    async def _write_every_report(self) -> None:
        """As if every agent were started anew: nothing changes but who wrote the report, and when."""
        moment = dt.datetime.now(dt.UTC).isoformat()
        patch = msgspec.json.encode({"status": {"reportedAt": moment}})
        await in_parallel(
            lambda name: self._api.send("PATCH", f"{REPORTS_PATH}/{name}", patch, kind=MERGE_PATCH),
            self._names,
        )


def _name(group: int) -> str:
    return f"fleet-{group:05d}"
