"""An informer's store equals what the API server has, whatever happens to the server or the way there."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
import pytest

from rig.base.polling import soon
from rig.builders import kubernetes_objects
from rig.cluster import controlplane, faultproxy
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from schedkit.kube.access import config
from schedkit.kube.backoff import Patience
from schedkit.kube.client import Client, Selection
from schedkit.kube.informer import Informer, Limits
from schedkit.kube.resources import Described, Key, Metadata, Resource

pytestmark = pytest.mark.full  # the tier would outgrow its budget

T = TypeVar("T", bound=Described)


class ConfigMap(msgspec.Struct, gc=False):
    metadata: Metadata | None = None
    data: dict[str, str] | None = None


MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap)
PODS = Resource("", "v1", "pods", "Pod", ConfigMap)  # of which it has the metadata
QUICK = Limits(watch_s=4, silence_s=6, first_delay_s=0.1, longest_delay_s=0.5)
LONG = Limits(watch_s=60, silence_s=70, first_delay_s=0.1, longest_delay_s=0.5)


@pytest.fixture(scope="module")
def victim() -> Iterator[ControlPlane]:
    """A control plane of our own to break; each test leaves it whole."""
    with controlplane.running("informer") as plane:
        yield plane


class Followed:
    """An informer at work on the ConfigMaps of a namespace, and the rig's own view of them."""

    def __init__(self, cluster: ControlPlane, namespace: str, informer: Informer[ConfigMap]) -> None:
        self.informer = informer
        self.told: list[Key] = []
        informer.subscribe(self.told.append)
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.rig = cluster.client

    def create(self, name: str, **data: str) -> None:
        self.rig.create(self.path, kubernetes_objects.config_map(name, **data))

    def delete(self, name: str) -> None:
        self.rig.delete(f"{self.path}/{name}")

    def held(self) -> dict[str, str | None]:
        metadata = [each.metadata for each in self.informer.store if each.metadata]
        return {each.name: each.resource_version for each in metadata}

    async def holds(self, *names: str, timeout_s: float = 30) -> None:
        """Wait until it holds exactly these, beside what Kubernetes itself puts in every namespace."""
        await soon(
            lambda: set(self.held()) - {"kube-root-ca.crt"} == set(names),
            f"it holds {sorted(names)}",
            timeout_s=timeout_s,
        )


@asynccontextmanager
async def following(
    cluster: ControlPlane,
    namespace: str,
    limits: Limits,
    *,
    kubeconfig: Path | None = None,
    selection: Selection | None = None,
    resource: Resource[ConfigMap] = MAPS,
    make: type[Client] = Client,
) -> AsyncIterator[Followed]:
    connection = config.discover(kubeconfig or cluster.kubeconfig, env={})
    patience = Patience(attempt_s=3, total_s=3, first_delay_s=0.1)
    async with make(connection, patience=patience) as client:
        informer = Informer(client, resource, selection or Selection(namespace), limits=limits)
        followed = Followed(cluster, namespace, informer)
        task = asyncio.create_task(informer.run())
        try:
            await asyncio.wait_for(informer.wait_synced(), 30)
            yield followed
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(150):
            await scenario()

    asyncio.run(bounded())


def test_what_is_created_changed_and_deleted_is_seen_at_once(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with following(cluster, namespace, LONG) as followed:
            followed.create("a")
            await followed.holds("a", timeout_s=5)
            followed.rig.patch(f"{followed.path}/a", {"data": {"x": "y"}})
            key = Key(namespace, "a")
            await soon(lambda: (found := followed.informer.store.get(key)) and found.data, "it changed")
            followed.delete("a")
            await followed.holds(timeout_s=5)

            assert [each for each in followed.told if each == key] == [key] * 3
            assert followed.informer.lists == 1

    play(scenario)


def test_watches_that_end_by_themselves_are_resumed_without_a_new_list(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        limits = Limits(watch_s=2, silence_s=5, first_delay_s=0.1)
        async with following(cluster, namespace, limits) as followed:
            for number in range(7):
                followed.create(f"map-{number}")
                await asyncio.sleep(1)  # three watches end meanwhile
            await followed.holds(*(f"map-{number}" for number in range(7)))

            assert followed.informer.lists == 1
            assert followed.informer.age_s < 5

    play(scenario)


def test_a_list_is_taken_in_page_by_page(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        for number in range(23):
            cluster.client.create(path, kubernetes_objects.config_map(f"map-{number:02}"))
        start = cluster.audit_log.position()
        limits = Limits(page=5)
        user = cluster.user("pager", group="system:masters")
        async with following(cluster, namespace, limits, kubeconfig=user) as followed:
            await followed.holds(*(f"map-{number:02}" for number in range(23)))
            await soon(lambda: _lists(cluster, start, "pager") >= 5, "five pages are in the audit log")

    play(scenario)


def _lists(cluster: ControlPlane, since: int, user: str) -> int:
    return len(list(cluster.audit(since=since, user=user, verb="list")))


def test_a_connection_that_is_cut_is_replaced(cluster: ControlPlane, namespace: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faultproxy.relay(cluster.layout.ports.api) as relay:
            way = _through(cluster, relay.port, tmp_path)
            async with following(cluster, namespace, LONG, kubeconfig=way) as followed:
                followed.create("before")
                await followed.holds("before")
                relay.cut()
                followed.create("after")
                followed.delete("before")
                await followed.holds("after")

                assert followed.informer.lists == 1
                assert relay.accepted >= 3

    play(scenario)


def test_a_connection_that_dies_silently_is_noticed_and_replaced(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with faultproxy.relay(cluster.layout.ports.api) as relay:
            way = _through(cluster, relay.port, tmp_path)
            limits = Limits(watch_s=60, silence_s=3, first_delay_s=0.1)
            async with following(cluster, namespace, limits, kubeconfig=way) as followed:
                followed.create("before")
                await followed.holds("before")
                relay.forget()
                followed.create("unheard")
                followed.delete("before")
                await followed.holds("unheard", timeout_s=15)

    play(scenario)


def _through(cluster: ControlPlane, port: int, folder: Path) -> Path:
    """A kubeconfig that leads to the cluster through that port."""
    whole = json.loads(cluster.kubeconfig.read_text())
    whole["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    file = folder / "through.kubeconfig"
    file.write_text(json.dumps(whole))
    return file


def test_a_watcher_that_the_server_throws_out_during_a_burst_misses_nothing(
    cluster: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    # asked by node, the server keeps a buffer of ten events, beside what TCP takes
    selection = Selection(namespace, fields="spec.nodeName=nowhere")

    async def scenario() -> None:
        async with following(cluster, namespace, LONG, selection=selection, resource=PODS) as followed:
            cluster.client.create(path, _big_pod("first"))
            await followed.holds("first")  # so the watch has begun
            thrown_out = _terminated_watchers(cluster)
            with ThreadPoolExecutor(4) as pool:
                burst = [pool.submit(cluster.client.create, path, _big_pod(f"pod-{n}")) for n in range(250)]
                while any(not each.done() for each in burst):
                    time.sleep(0.2)  # noqa: ASYNC251  # this process is too busy to read its watch
                for each in burst:
                    each.result()
            assert _terminated_watchers(cluster) > thrown_out
            await followed.holds("first", *(f"pod-{n}" for n in range(250)), timeout_s=60)

            assert followed.informer.lists == 1
            assert followed.held() == _versions(cluster, path)

    play(scenario)


def _big_pod(name: str) -> JsonObject:
    pod = kubernetes_objects.pod(name)
    pod["metadata"]["annotations"] = {"filler": "x" * 80_000}
    pod["spec"]["nodeName"] = "nowhere"
    return pod


def _versions(cluster: ControlPlane, path: str) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in cluster.client.items(path)
    }


def _terminated_watchers(cluster: ControlPlane) -> int:
    text = cluster.client.text("/metrics")
    counts = re.findall(r'apiserver_terminated_watchers_total\{.*resource="pods"\} (\d+)', text)
    return sum(map(int, counts))


# Faults of the server itself


def test_a_server_that_is_killed_and_restarted(victim: ControlPlane) -> None:
    namespace = victim.create_namespace()

    async def scenario() -> None:
        async with following(victim, namespace, LONG) as followed:
            followed.create("before")
            await followed.holds("before")
            victim.apiserver.kill()
            await asyncio.sleep(2)
            victim.apiserver.start()  # blocks this loop as well: the informer finds itself seconds later
            followed.create("after")
            followed.delete("before")
            await followed.holds("after", timeout_s=60)

    play(scenario)


def test_a_server_that_freezes_for_a_minute_makes_the_store_old_but_not_wrong(victim: ControlPlane) -> None:
    namespace = victim.create_namespace()

    async def scenario() -> None:
        async with following(victim, namespace, QUICK) as followed:
            followed.create("before")
            await followed.holds("before")
            victim.apiserver.freeze()
            try:
                await soon(lambda: followed.informer.age_s > 60, "the store is old", timeout_s=90)
                assert "before" in followed.held()
            finally:
                victim.apiserver.thaw()
            followed.create("after")
            followed.delete("before")
            await followed.holds("after", timeout_s=60)
            await soon(lambda: followed.informer.age_s < 5, "the store is fresh")

    play(scenario)


def test_deletions_in_a_history_that_was_compacted_are_noticed(victim: ControlPlane, tmp_path: Path) -> None:
    namespace = victim.create_namespace()

    async def scenario() -> None:
        async with faultproxy.relay(victim.layout.ports.api) as relay:
            way = _through(victim, relay.port, tmp_path)
            async with following(victim, namespace, LONG, kubeconfig=way) as followed:
                followed.create("stays")
                followed.create("goes")
                await followed.holds("stays", "goes")
                told = len(followed.told)
                relay.target = 1  # nobody listens there
                relay.cut()
                followed.delete("goes")
                followed.create("comes")
                _compact(victim)
                victim.apiserver.restart()  # its memory of the last minutes is gone, too
                relay.target = victim.layout.ports.api
                await followed.holds("stays", "comes", timeout_s=60)

                assert followed.informer.lists >= 2
                assert {key.name for key in followed.told[told:]} == {"goes", "comes"}

    play(scenario)


def _compact(cluster: ControlPlane) -> None:
    """Make etcd forget everything but the present."""
    layout = cluster.layout
    tls = ssl.create_default_context(cafile=layout.authority.ca_file)
    tls.load_cert_chain(layout.loopback.cert, layout.loopback.key)

    def etcd(path: str, body: object) -> dict[str, dict[str, str]]:
        url = f"https://127.0.0.1:{layout.ports.etcd}/v3/kv/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode())  # loopback
        with urllib.request.urlopen(request, context=tls, timeout=30) as answer:  # noqa: S310  # loopback
            found: dict[str, dict[str, str]] = json.load(answer)
            return found

    revision = etcd("range", {"key": "AA=="})["header"]["revision"]
    etcd("compaction", {"revision": revision, "physical": True})


class FirstFromTheFuture(Client):
    """A client whose first watch starts at a version the server has not reached.

    As after etcd was restored from a backup: the server knows less than the informer.
    """

    watches = 0

    def watch(
        self, resource: Resource[T], selection: Selection, *, version: str, lasts_s: int, silence_s: float
    ) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        self.watches += 1
        start = str(int(version) + 1_000_000) if self.watches == 1 else version
        return super().watch(resource, selection, version=start, lasts_s=lasts_s, silence_s=silence_s)


def test_a_version_from_the_future_does_not_leave_the_informer_deaf(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        limits = Limits(watch_s=3, silence_s=6, first_delay_s=0.1)
        async with following(cluster, namespace, limits, make=FirstFromTheFuture) as followed:
            await soon(
                lambda: cluster.client.find(f"{followed.path}/kube-root-ca.crt"), "the namespace is whole"
            )
            followed.create("unheard")
            await asyncio.sleep(1)
            assert "unheard" not in followed.held(), "the server says nothing about it"
            await followed.holds("unheard", timeout_s=20)
            await soon(lambda: followed.informer.lists == 2, "the list that found it is complete")

    play(scenario)
