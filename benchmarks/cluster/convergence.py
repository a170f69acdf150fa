"""How long it takes from many SchedExts written at once until everything about them is right."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from benchmarks.cluster import processes
from benchmarks.cluster.api import Api, in_parallel
from benchmarks.cluster.contenders import Contender, Running, count_writes, running
from benchmarks.cluster.objects import ANYWHERE, Bodies, daemon_sets_path, group_name, schedexts_path
from benchmarks.cluster.witness import Witness
from rig.base.errors import RigError
from rig.cluster.controlplane import ControlPlane
from schedkit.model.api.schedext import SchedExt

CEILING = "API server alone"
WRITER = "bench"  # our own user at the API server
_TIMEOUT_S = 900
# what an operator watches
_WATCHED = (
    ANYWHERE,
    "/apis/apps/v1/daemonsets?labelSelector=managed-by%3Dsked-controller",
    "/api/v1/pods?labelSelector=managed-by%3Dsked-controller",
    "/api/v1/events?fieldSelector=involvedObject.kind%3DDaemonSet,reason%3DFailedCreate",
    "/api/v1/nodes",
)


@dataclass(frozen=True, slots=True)
class Convergence:
    """One round. All times begin with the first SchedExt's request."""

    who: str
    daemon_sets_s: float  # until the last DaemonSet was there
    statuses_s: float  # until the last status said that a DaemonSet was there
    cpu_s: float  # of the contender
    server_cpu_s: float
    writes: int  # requests to change something, its own and ours


class Course:
    """Rounds of that many SchedExts in one namespace, which is empty before and after each."""

    def __init__(self, cluster: ControlPlane, api: Api, namespace: str, count: int) -> None:
        self._cluster, self._api, self._namespace = cluster, api, namespace
        names = [f"bench-{index:05d}" for index in range(count)]
        self._bodies = [Bodies(namespace, name, group_name(index)) for index, name in enumerate(names)]
        self._names = names

    async def run(self, contender: Contender) -> Convergence:
        """Write all SchedExts at once, and wait for the contender to do the rest."""
        with running(self._cluster, contender) as process:
            process.await_synced()
            measured = await self._round(contender.name, self._write_schedexts, process)
        await empty(self._api, self._namespace)
        return measured

    async def run_ceiling(self) -> Convergence:
        """Make the same writes with no contender at all, while somebody watches what one would watch."""
        async with _watching(self._api):
            measured = await self._round(CEILING, self._write_all, None)
        await empty(self._api, self._namespace)
        return measured

    async def _round(
        self, who: str, write: Callable[[], Awaitable[None]], process: Running | None
    ) -> Convergence:
        async with Witness(self._api, self._namespace) as witness:
            spent, server_spent = _cpu_s(process), processes.cpu_s(self._cluster.apiserver.pid)
            log_end, started = self._cluster.audit_log.position(), time.monotonic()
            await write()
            came = await witness.all_came(self._names, timeout_s=_TIMEOUT_S)
            finished = await witness.all_reported(self._names, timeout_s=_TIMEOUT_S)
            measured = Convergence(
                who=who,
                daemon_sets_s=came - started,
                statuses_s=finished - started,
                cpu_s=_cpu_s(process) - spent,
                server_cpu_s=processes.cpu_s(self._cluster.apiserver.pid) - server_spent,
                writes=count_writes(self._cluster, WRITER, log_end) + (process.writes if process else 0),
            )
            if wrong := witness.wrong(self._names):
                raise RigError(f"{who}: {len(wrong)} ended up wrong, such as {wrong[0]}")
        return measured

    async def _write_schedexts(self) -> None:
        path = schedexts_path(self._namespace)
        await in_parallel(lambda each: self._api.send("POST", path, each.schedext), self._bodies)

    async def _write_all(self) -> None:
        """SchedExts and DaemonSets first, then the statuses: the order in which DaemonSets come soonest."""
        versions: dict[str, str] = {}
        schedexts, daemon_sets = schedexts_path(self._namespace), daemon_sets_path(self._namespace)

        async def create(each: Bodies) -> None:
            answer = await self._api.send("POST", schedexts, each.schedext)
            made = msgspec.json.decode(answer, type=SchedExt).metadata
            versions[each.name] = made.resource_version
            await self._api.send("POST", daemon_sets, each.daemon_set(made.uid))

        async def report(each: Bodies) -> None:
            await self._api.send("PUT", f"{schedexts}/{each.name}/status", each.status(versions[each.name]))

        await in_parallel(create, self._bodies)
        await in_parallel(report, self._bodies)


def _cpu_s(process: Running | None) -> float:
    return process.cpu_s if process else 0.0


@asynccontextmanager
async def _watching(api: Api) -> AsyncIterator[None]:
    """Watches over everything that an operator watches, whose events nobody reads closely."""

    async def read(path: str, version: str) -> None:
        async for _ in api.watch(path, version):
            pass

    tasks = [asyncio.create_task(read(path, (await api.listed(path))[1])) for path in _WATCHED]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def empty(api: Api, namespace: str) -> None:
    """Delete all SchedExts and DaemonSets: with nobody who works for them, they are gone at once."""
    for path in (schedexts_path(namespace), daemon_sets_path(namespace)):
        await api.send("DELETE", path)
        if left := (await api.listed(path))[0]:
            raise RigError(f"{left} objects are still at {path} after they were deleted")
