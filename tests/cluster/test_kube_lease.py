"""Of several processes one leads, and one that lost its lease without knowing changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from rig.base import polling, processes
from rig.base.polling import play, soon
from rig.base.processes import Process
from rig.builders import kubernetes_objects
from rig.cluster import faultproxy
from rig.cluster.audit import AuditEvent
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from schedkit.kube.access import config
from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.kube.errors import FencedError
from schedkit.kube.lease import Elector, LeaseLostError, Terms

pytestmark = pytest.mark.full  # the tier would outgrow its budget

TERMS = Terms(lease_s=3, act_s=2, retry_s=0.4)
_SOURCES = Path(__file__).parents[2] / "src"

# It goes on working whatever becomes of its lease: only the fence stands between it and the server.
_MANAGER = """
import asyncio, sys
from pathlib import Path
import msgspec
from schedkit.kube.access import config
from schedkit.kube.client import Client
from schedkit.kube.errors import FencedError
from schedkit.kube.lease import Elector, Terms
from schedkit.kube.resources import Metadata, Resource

class Map(msgspec.Struct):
    metadata: Metadata | None = None

MAPS = Resource("", "v1", "configmaps", "ConfigMap", Map)
kubeconfig, namespace, identity, fence = sys.argv[1:]

async def main():
    async with Client(config.discover(Path(kubeconfig), env={})) as client:
        terms = Terms(lease_s=3, act_s=2, retry_s=0.4)
        elector = Elector(client, name="lock", namespace=namespace, identity=identity, terms=terms)
        await elector.acquire()
        keeper = asyncio.create_task(elector.keep())
        writer = client.fenced(elector.fence) if fence == "fenced" else client
        count = 0
        while True:
            count += 1
            try:
                await writer.patch(MAPS, {"data": {identity: str(count)}}, "ledger", namespace)
            except FencedError:
                print("kept back", flush=True)
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


def lease(cluster: ControlPlane, namespace: str) -> JsonObject:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lock"
    found = cluster.client.find(path)
    spec: JsonObject = found["spec"] if found else {}
    return spec


def holder(cluster: ControlPlane, namespace: str) -> str:
    found: str = lease(cluster, namespace).get("holderIdentity", "")
    return found


def manager(cluster: ControlPlane, namespace: str, identity: str, folder: Path, fence: str) -> Process:
    """A process that waits for the lease and then writes to the ledger for ever."""
    kubeconfig = cluster.user(identity, group="system:masters")
    argv = [sys.executable, "-c", _MANAGER, str(kubeconfig), namespace, identity, fence]
    return Process(argv, log=folder / f"{identity}.log", env={**os.environ, "PYTHONPATH": str(_SOURCES)})


def entries(cluster: ControlPlane, since: int, user: str) -> list[AuditEvent]:
    """What that user wrote, or tried to write, into the ledger."""
    return list(cluster.audit(since=since, user=user, verb="patch", resource="configmaps", name="ledger"))


@contextmanager
def thawed_after_its_lease(
    cluster: ControlPlane, namespace: str, folder: Path, fence: str
) -> Iterator[tuple[Process, Callable[[], list[AuditEvent]]]]:
    """A former leader, frozen until another led and wrote; and what it has written since it was thawed."""
    first_name, second_name = f"first-{namespace}", f"second-{namespace}"
    cluster.client.create(
        f"/api/v1/namespaces/{namespace}/configmaps", kubernetes_objects.config_map("ledger")
    )
    first = manager(cluster, namespace, first_name, folder, fence)
    with processes.running(first):
        polling.until(lambda: entries(cluster, 0, first_name), "the first writes")
        second = manager(cluster, namespace, second_name, folder, fence)
        with processes.running(second):
            polling.until(lambda: "lease_held_elsewhere" in second.tail(), "the second waits")
            assert holder(cluster, namespace) == first_name

            first.send(signal.SIGSTOP)
            polling.until(lambda: entries(cluster, 0, second_name), "the second leads and writes")
            assert holder(cluster, namespace) == second_name
            since = cluster.audit_log.position()
            first.send(signal.SIGCONT)
            yield first, lambda: entries(cluster, since, first_name)


def test_a_leader_frozen_past_its_lease_applies_nothing_when_it_is_thawed(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    with thawed_after_its_lease(cluster, namespace, tmp_path, "fenced") as (first, written):
        polling.until(lambda: first.log.read_text().count("kept back") > 10, "it wanted to write")

        assert written() == []
        assert holder(cluster, namespace) == f"second-{namespace}"


def test_without_the_fence_a_thawed_leader_would_go_on_writing(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    with thawed_after_its_lease(cluster, namespace, tmp_path, "unfenced") as (_, written):
        assert polling.until(written, "it writes")


@asynccontextmanager
async def electors(
    cluster: ControlPlane, namespace: str, *names: str, terms: Terms = TERMS, port: int | None = None
) -> AsyncIterator[list[Elector]]:
    where = config.discover(cluster.kubeconfig, env={})
    if port is not None:
        where = Connection(f"https://127.0.0.1:{port}", tls=where.tls)
    async with Client(where) as client:
        yield [
            Elector(client, name="lock", namespace=namespace, identity=name, terms=terms) for name in names
        ]


def test_of_two_at_once_one_leads_and_the_other_takes_over_at_its_release(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with electors(cluster, namespace, "a", "b") as pair:
            waiting = {asyncio.create_task(each.acquire()): each for each in pair}
            done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            leader, follower = waiting[done.pop()], waiting[pending.pop()]
            assert leader.leads
            assert leader.fence() > 0
            assert not follower.leads
            with pytest.raises(FencedError, match=f"{follower.identity} no longer holds"):
                follower.fence()
            await soon(lambda: follower.holder == leader.identity, "it sees who leads")

            released_at = time.monotonic()
            await leader.release()
            with pytest.raises(FencedError):
                leader.fence()
            await soon(lambda: follower.leads, "the other leads")
            assert time.monotonic() - released_at < TERMS.lease_s, "it did not wait for the lease to end"
            assert lease(cluster, namespace)["leaseTransitions"] == 1

    play(scenario)


def test_a_holder_that_vanished_is_followed_when_its_lease_is_over_and_not_before(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with electors(cluster, namespace, "gone", "next") as (gone, following):
            await gone.acquire()
            started = time.monotonic()
            await following.acquire()
            waited_s = time.monotonic() - started

            assert waited_s >= TERMS.lease_s
            assert not gone.leads, "it had stopped by its own clock"
            assert holder(cluster, namespace) == "next"

    play(scenario)


def test_a_leader_that_renews_stays_leader(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with electors(cluster, namespace, "a") as (leader,):
            ended = asyncio.Event()
            leading = asyncio.create_task(leader.lead(lambda: _wait(ended)))
            await soon(lambda: leader.leads, "it leads")
            first = lease(cluster, namespace)
            until = time.monotonic() + 2 * TERMS.lease_s
            while time.monotonic() < until:
                assert leader.leads
                await asyncio.sleep(0.1)
            assert lease(cluster, namespace)["renewTime"] > first["renewTime"]
            assert lease(cluster, namespace)["acquireTime"] == first["acquireTime"]

            ended.set()
            await leading
            assert holder(cluster, namespace) == "", "released at the end of the work"

    play(scenario)


async def _wait(ended: asyncio.Event) -> None:
    await ended.wait()


def test_a_leader_cut_off_from_the_server_stops_before_its_lease_ends(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with (
            faultproxy.relay(cluster.layout.ports.api) as relay,
            electors(cluster, namespace, "a", port=relay.port) as (leader,),
        ):
            cancelled_at: list[float] = []

            async def work() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled_at.append(time.monotonic())

            leading = asyncio.create_task(leader.lead(work))
            await soon(lambda: leader.leads, "it leads")
            relay.target = 1
            cut_at = time.monotonic()
            relay.cut()
            with pytest.raises(LeaseLostError, match="was not renewed"):
                await leading

            assert cancelled_at[0] - cut_at < TERMS.lease_s
            assert not leader.leads

    play(scenario)


def test_a_deleted_lease_is_made_anew_by_its_holder_and_by_nobody_who_waits(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with electors(cluster, namespace, "a", "b") as (leader, follower):
            leading = asyncio.create_task(leader.lead(lambda: _wait(asyncio.Event())))
            await soon(lambda: leader.leads, "it leads")
            following = asyncio.create_task(follower.acquire())
            await soon(lambda: follower.holder == "a", "the other sees it")
            path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lock"
            for _ in range(3):
                cluster.client.delete(path)
                await soon(lambda: holder(cluster, namespace) == "a", "it is there again")
                await soon(lambda: leader.leads, "it leads again")
            assert not leading.done()
            assert not following.done()
            following.cancel()
            leading.cancel()
            await asyncio.wait([leading, following])

    play(scenario)


def test_a_lease_taken_by_force_is_noticed_and_left_to_its_taker(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with electors(cluster, namespace, "a") as (leader,):
            leading = asyncio.create_task(leader.lead(lambda: _wait(asyncio.Event())))
            await soon(lambda: leader.leads, "it leads")
            path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lock"
            cluster.client.patch(path, {"spec": {"holderIdentity": "usurper"}})
            with pytest.raises(LeaseLostError, match="taken by 'usurper'"):
                await leading

            assert holder(cluster, namespace) == "usurper"

    play(scenario)
