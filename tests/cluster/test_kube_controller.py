"""Controllers and events on a real API server: reactions, failures, repetition and an orderly end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from rig.base.polling import play, soon
from rig.builders import kubernetes_objects
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from schedkit.kube.access import config
from schedkit.kube.client import Client, Selection
from schedkit.kube.controller import DONE, Controller, Result, serve
from schedkit.kube.events import Occurrence, Recorder, Reference
from schedkit.kube.informer import Informer
from schedkit.kube.queue import KeyedQueue
from schedkit.kube.resources import Key, Metadata, Resource

pytestmark = pytest.mark.full  # the tier would outgrow its budget


class OwnerReference(msgspec.Struct, gc=False):
    name: str = ""
    controller: bool = False


class OwnedMetadata(Metadata, gc=False, rename="camel", kw_only=True):
    owner_references: list[OwnerReference] | None = None


class ConfigMap(msgspec.Struct, gc=False):
    metadata: OwnedMetadata | None = None
    data: dict[str, str] | None = None


MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap)


@asynccontextmanager
async def connected(cluster: ControlPlane) -> AsyncIterator[Client]:
    async with Client(config.discover(cluster.kubeconfig, env={})) as client:
        yield client


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def labelled(name: str, **data: str) -> JsonObject:
    body = kubernetes_objects.config_map(name, **data)
    body["metadata"]["labels"] = {"watched": "yes"}
    return body


@asynccontextmanager
async def serving(
    informer: Informer[ConfigMap], controller: Controller[Key], *, grace_s: float = 10
) -> AsyncIterator[asyncio.Event]:
    """All of it at work; it ends in order when the block does."""
    stop = asyncio.Event()
    task = asyncio.create_task(serve([informer], [controller], stop, grace_s=grace_s))
    try:
        yield stop
    finally:
        stop.set()
        await task


def test_each_object_is_copied_once_and_again_when_it_changes(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            informer = Informer(client, MAPS, Selection(namespace, labels="watched=yes"))

            async def copy(key: Key) -> Result:
                found = informer.store.get(key)
                data = found.data if found and found.data else {}
                name = f"copy-of-{key.name}"
                if await client.find(MAPS, name, namespace) is None:
                    await client.create(MAPS, kubernetes_objects.config_map(name, **data), namespace)
                else:
                    await client.patch(MAPS, {"data": data}, name, namespace)
                return DONE

            controller: Controller[Key] = Controller("copier", copy)
            informer.subscribe(controller.queue.add)
            for number in range(10):
                cluster.client.create(maps(namespace), labelled(f"map-{number}", value="old"))
            async with serving(informer, controller):
                await soon(lambda: _copies(cluster, namespace) == {"old": 10}, "ten copies", poll_s=0.1)
                cluster.client.patch(f"{maps(namespace)}/map-3", {"data": {"value": "new"}})
                await soon(
                    lambda: _copies(cluster, namespace) == {"old": 9, "new": 1}, "one changed", poll_s=0.1
                )

    play(scenario)


def _copies(cluster: ControlPlane, namespace: str) -> dict[str, int]:
    items = cluster.client.items(maps(namespace))
    copies = [item for item in items if item["metadata"]["name"].startswith("copy-of-")]
    return dict(Counter(item["data"]["value"] for item in copies))


def test_a_change_of_something_owned_concerns_its_owner(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            seen: list[Key] = []

            async def note(key: Key) -> Result:
                seen.append(key)
                return DONE

            informer = Informer(client, MAPS, Selection(namespace, labels="watched=yes"))
            controller: Controller[Key] = Controller("owners", note)
            informer.subscribe(controller.queue.add, _owners)
            async with serving(informer, controller):
                owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u-1"}
                owned = labelled("owned")
                owned["metadata"]["ownerReferences"] = [owner | {"controller": True}]
                owner_of_it = cluster.client.create(maps(namespace), kubernetes_objects.config_map("owner"))
                owned["metadata"]["ownerReferences"][0]["uid"] = owner_of_it["metadata"]["uid"]
                cluster.client.create(maps(namespace), owned)
                await soon(lambda: seen == [Key(namespace, "owner")], "its owner is looked at")
                cluster.client.delete(f"{maps(namespace)}/owned")
                await soon(lambda: seen == [Key(namespace, "owner")] * 2, "and again")

    play(scenario)


def _owners(thing: ConfigMap) -> list[Key]:
    owners: list[OwnerReference] = (thing.metadata.owner_references if thing.metadata else None) or []
    namespace = thing.metadata.namespace if thing.metadata else None
    return [Key(namespace, each.name) for each in owners if each.controller]


def test_failures_are_repeated_later(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            tried: Counter[str] = Counter()
            outcomes: Counter[str] = Counter()

            async def fail(key: Key) -> Result:
                tried[key.name] += 1
                if key.name == "missing":
                    await client.get(MAPS, "none-such", namespace)
                if key.name == "buggy" and tried["buggy"] < 3:
                    raise ZeroDivisionError
                return Result(after_s=0.05) if key.name == "again" and tried["again"] < 4 else DONE

            queue: KeyedQueue[Key] = KeyedQueue(first_delay_s=0.02, longest_delay_s=0.1)
            informer = Informer(client, MAPS, Selection(namespace, labels="watched=yes"))
            controller = Controller(
                "failing", fail, queue=queue, observe=lambda _, outcome, __: outcomes.update([outcome])
            )
            informer.subscribe(queue.add)
            names = ("missing", "buggy", "again")
            for name in names:
                cluster.client.create(maps(namespace), labelled(name))
            async with serving(informer, controller):
                await soon(lambda: tried["missing"] > 5, "the missing one is tried again and again")
                await soon(lambda: tried["again"] == 4, "asked for four times")

            assert tried["buggy"] == 3
            assert outcomes["later"] == 3

    play(scenario)


def test_at_the_end_the_work_at_hand_is_finished_and_no_other_begun(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            begun: list[str] = []
            finished: list[str] = []

            async def slow(key: Key) -> Result:
                begun.append(key.name)
                await asyncio.sleep(0.5)
                finished.append(key.name)
                return DONE

            informer = Informer(client, MAPS, Selection(namespace, labels="watched=yes"))
            controller: Controller[Key] = Controller("slow", slow, workers=2)
            informer.subscribe(controller.queue.add)
            for number in range(6):
                cluster.client.create(maps(namespace), labelled(f"map-{number}"))
            async with serving(informer, controller):
                await soon(lambda: len(begun) == 2, "two are at work")

            assert len(finished) == 2
            assert sorted(begun) == sorted(finished)

    play(scenario)


def test_work_that_outlasts_the_grace_is_cancelled(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            begun = asyncio.Event()

            async def endless(_: Key) -> Result:
                begun.set()
                await asyncio.Event().wait()
                return DONE

            informer = Informer(client, MAPS, Selection(namespace, labels="watched=yes"))
            controller: Controller[Key] = Controller("endless", endless)
            informer.subscribe(controller.queue.add)
            cluster.client.create(maps(namespace), labelled("map"))
            async with serving(informer, controller, grace_s=0.3) as stop:
                await begun.wait()
                stop.set()
                started = time.monotonic()
            assert time.monotonic() - started < 5

    play(scenario)


# Events


def _events(cluster: ControlPlane, namespace: str) -> list[JsonObject]:
    return cluster.client.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")


def _about(cluster: ControlPlane, namespace: str) -> Reference:
    made = cluster.client.create(maps(namespace), kubernetes_objects.config_map("subject"))
    return Reference("v1", "ConfigMap", "subject", namespace, made["metadata"]["uid"])


def test_an_event_that_repeats_is_counted_and_kubectl_shows_it(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            recorder = Recorder(client, controller="example.com/test", instance="test-1")
            about = _about(cluster, namespace)
            writing = asyncio.create_task(recorder.run())
            broken = Occurrence(about, "Broken", "it broke", kind="Warning")
            recorder.record(broken)
            await soon(lambda: len(_events(cluster, namespace)) == 1, "the first is written", poll_s=0.1)
            for _ in range(3):
                recorder.record(broken)
            recorder.record(Occurrence(about, "Mended", "it works"))
            await soon(lambda: len(_events(cluster, namespace)) == 2, "the other is written", poll_s=0.1)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

        counted = {
            event["reason"]: event.get("series", {}).get("count", 1) for event in _events(cluster, namespace)
        }
        assert counted == {"Broken": 4, "Mended": 1}
        shown = cluster.kubectl("describe", "configmap", "subject", "-n", namespace).stdout
        assert "it broke" in shown
        assert "it works" in shown

    play(scenario)


def test_what_waits_to_be_told_is_told_before_the_end(cluster: ControlPlane, namespace: str) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            recorder = Recorder(client, controller="example.com/test", instance="test-1")
            about = _about(cluster, namespace)
            for number in range(30):
                recorder.record(Occurrence(about, "Last", f"word {number}"))
            await recorder.flush(within_s=30)
            assert len(_events(cluster, namespace)) == 30

            recorder.record(Occurrence(about, "Late", "no time is left"))
            await recorder.flush(within_s=0)
            assert recorder.dropped == 1

    play(scenario)


def test_a_flood_of_events_is_thinned_and_what_is_too_much_is_dropped(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            about = _about(cluster, namespace)
            recorder = Recorder(
                client, controller="example.com/test", instance="test-1", per_second=2, burst=3, waiting=10
            )
            for number in range(50):
                recorder.record(Occurrence(about, "Flood", f"wave {number}"))
            assert recorder.dropped == 40

            writing = asyncio.create_task(recorder.run())
            started = time.monotonic()
            await soon(lambda: len(_events(cluster, namespace)) >= 6, "some are written", poll_s=0.1)
            assert time.monotonic() - started > 1
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    play(scenario)


def test_an_event_that_cannot_be_written_is_dropped_and_the_next_one_is_tried(
    cluster: ControlPlane, namespace: str
) -> None:
    async def scenario() -> None:
        async with connected(cluster) as client:
            recorder = Recorder(client, controller="example.com/test", instance="test-1")
            recorder.record(
                Occurrence(Reference("v1", "ConfigMap", "x", "no-such-namespace"), "Lost", "unseen")
            )
            recorder.record(Occurrence(_about(cluster, namespace), "Found", "seen"))
            await recorder.write_one()
            await recorder.write_one()

        assert recorder.dropped == 1
        assert [event["reason"] for event in _events(cluster, namespace)] == ["Found"]

    play(scenario)
