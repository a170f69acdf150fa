"""What an informer makes of streams that break in ways a real server does not offer on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from rig.base import polling
from rig.cluster import faultproxy
from rig.cluster.faultproxy import Asked, answer, stream
from schedkit.kube.access.config import Connection
from schedkit.kube.backoff import Patience
from schedkit.kube.client import Client
from schedkit.kube.informer import Informer, Limits
from schedkit.kube.resources import Key, Metadata, Resource


class Spec(msgspec.Struct, gc=False):
    size: int | None = None


class Thing(msgspec.Struct, gc=False):
    metadata: Metadata | None = None
    spec: Spec | None = None


THINGS = Resource("example.com", "v1", "things", "Thing", Thing)
QUICK = Limits(watch_s=2, silence_s=1, first_delay_s=0.02, longest_delay_s=0.05)


def thing(name: str, version: int, **fields: object) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version)}, **fields}


def listed(version: int, *things: dict[str, Any]) -> bytes:
    return answer(json.dumps({"metadata": {"resourceVersion": str(version)}, "items": things}).encode())


def event(kind: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


async def forever(_: Asked) -> bytes:
    """A watch on which nothing happens."""
    await asyncio.sleep(60)
    return b""


def follow(
    *answers: faultproxy.Answer, until: Callable[[Informer[Thing]], bool]
) -> tuple[Informer[Thing], list[Key], list[str]]:
    """The informer when that is so, the keys it told of, and the queries of its requests."""

    async def play() -> tuple[Informer[Thing], list[Key], list[str]]:
        async with faultproxy.scripted(*answers) as server, _client(server.url) as client:
            informer = Informer(client, THINGS, limits=QUICK)
            told: list[Key] = []
            informer.subscribe(told.append)
            task = asyncio.create_task(informer.run())
            try:
                await polling.soon(lambda: task.done() or until(informer), "what the test waits for is so")
                assert not task.done(), task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return informer, told, [each.target.partition("?")[2] for each in server.asked]

    return asyncio.run(play())


def _client(url: str) -> Client:
    return Client(Connection(url), patience=Patience(attempts=1))


def names(informer: Informer[Thing]) -> set[str]:
    return set(versions(informer))


def versions(informer: Informer[Thing]) -> dict[str, str | None]:
    return {each.metadata.name: each.metadata.resource_version for each in informer.store if each.metadata}


A, B, C = (Key("ns", name) for name in "abc")


def test_a_list_and_the_changes_after_it_are_in_the_store_and_told() -> None:
    watch = stream(
        event("ADDED", thing("b", 6)), event("MODIFIED", thing("a", 7)), event("DELETED", thing("b", 8))
    )
    _, told, queries = follow(
        listed(5, thing("a", 4)), watch, forever, until=lambda each: versions(each) == {"a": "7"}
    )

    assert told == [A, B, A, B]
    assert "resourceVersion=5" in queries[1]
    assert "allowWatchBookmarks=true" in queries[1]


def test_half_a_line_at_the_loss_of_a_connection_is_dropped_and_the_watch_resumed() -> None:
    half = event("ADDED", thing("c", 7))[:40]
    informer, told, queries = follow(
        listed(5),
        stream(event("ADDED", thing("b", 6)) + half, whole=False),
        stream(event("ADDED", thing("c", 7))),
        forever,
        until=lambda each: names(each) == {"b", "c"},
    )

    assert told == [B, C]
    assert "resourceVersion=6" in queries[2]
    assert informer.lists == 1


def test_half_a_line_at_the_regular_end_of_a_watch_is_dropped_as_well() -> None:
    half = event("ADDED", thing("c", 7))[:40]
    _, told, queries = follow(
        listed(5),
        stream(event("ADDED", thing("b", 6)) + half),
        stream(event("ADDED", thing("c", 7))),
        forever,
        until=lambda each: names(each) == {"b", "c"},
    )

    assert told == [B, C]
    assert "resourceVersion=6" in queries[2]


@pytest.mark.parametrize(
    "forgotten",
    [
        pytest.param(stream(event("ERROR", GONE)), id="as an event"),
        pytest.param(answer(json.dumps(GONE).encode(), code=410), id="as an HTTP status"),
        pytest.param(answer(b"gone", code=410, kind="text/plain"), id="as an HTTP status in plain text"),
    ],
)
def test_a_forgotten_version_leads_to_a_list_and_its_differences_alone_are_told(forgotten: bytes) -> None:
    informer, told, queries = follow(
        listed(5, thing("a", 1), thing("b", 2)),
        forgotten,
        listed(9, thing("a", 1), thing("c", 8)),
        forever,
        until=lambda each: each.lists == 2,
    )

    assert names(informer) == {"a", "c"}
    assert told == [A, B, C, B]
    assert "resourceVersion" not in queries[2]


def test_an_object_recreated_during_the_gap_is_told() -> None:
    _, told, _ = follow(
        listed(5, thing("a", 1)),
        stream(event("ERROR", GONE)),
        listed(9, thing("a", 8)),
        forever,
        until=lambda each: each.lists == 2,
    )

    assert told == [A, A]


def test_other_errors_in_a_stream_are_no_reason_to_list_again() -> None:
    broken = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd is away"}
    informer, _, queries = follow(
        listed(5),
        stream(event("ERROR", broken)),
        stream(event("ADDED", thing("b", 6))),
        forever,
        until=lambda each: names(each) == {"b"},
    )

    assert informer.lists == 1
    assert "resourceVersion=5" in queries[2]


def test_an_object_without_spec_is_an_object() -> None:
    informer, _, _ = follow(listed(5, thing("a", 4)), forever, until=lambda each: each.synced)

    assert informer.store.get(A) is not None
    assert informer.misfits == {}


def test_an_object_that_does_not_fit_spoils_neither_list_nor_watch() -> None:
    watch = stream(
        event("MODIFIED", thing("c", 6, spec={"size": "huge"}))
        + event("ADDED", thing("b", 7, spec={"size": 1}))
    )
    with capture_logs() as lines:
        informer, _, _ = follow(
            listed(5, thing("a", 4, spec=[]), thing("c", 3, spec={"size": 3})),
            watch,
            forever,
            until=lambda each: "b" in names(each),
        )

    assert [line["key"] for line in lines if line["event"] == "object_misfit"] == [str(A), str(C)]
    assert names(informer) == {"b", "c"}
    kept = informer.store.get(C)
    assert kept is not None
    assert kept.spec == Spec(3), "what was last understood stays"
    assert set(informer.misfits) == {A, C}
    assert "size" in informer.misfits[C]


NAMELESS = {"metadata": {"resourceVersion": "6"}, "spec": {"size": 1}}


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        pytest.param(NAMELESS, "(nameless)", id="without a name"),
        pytest.param({"spec": {"size": 1}}, "(nameless)", id="without metadata"),
        pytest.param({"metadata": 5}, "(nameless)", id="with metadata that are none"),
        pytest.param({"metadata": {"name": 5}}, "(nameless)", id="with a name that is none"),
        pytest.param(
            {"metadata": {"name": "c", "namespace": "ns", "resourceVersion": 6}},
            "ns/c",
            id="with a version that is none",
        ),
    ],
)
def test_an_object_that_cannot_be_known_spoils_neither_list_nor_watch(
    broken: dict[str, Any], named: str
) -> None:
    with capture_logs() as lines:
        informer, told, _ = follow(
            listed(5, broken, thing("a", 4)),
            stream(event("ADDED", broken), event("ADDED", thing("b", 7))),
            forever,
            until=lambda each: "b" in names(each),
        )

    assert names(informer) == {"a", "b"}
    assert told == [A, B]
    assert [str(key) for key in informer.misfits] == [named]
    assert [line["key"] for line in lines if line["event"] == "object_misfit"] == [named, named]


def test_a_misfit_that_is_mended_is_told_and_no_misfit_any_more() -> None:
    informer, told, _ = follow(
        listed(5, thing("a", 4, spec=[])),
        stream(event("MODIFIED", thing("a", 6, spec={}))),
        forever,
        until=lambda each: "a" in names(each),
    )

    assert informer.misfits == {}
    assert told == [A]


def test_bookmarks_move_the_point_of_resumption_and_are_told_to_nobody() -> None:
    bookmark = {"kind": "Thing", "metadata": {"resourceVersion": "77"}}
    _, told, queries = follow(
        listed(5), stream(event("BOOKMARK", bookmark)), stream(event("ADDED", thing("b", 78))), forever,
        until=lambda each: names(each) == {"b"},
    )  # fmt: skip

    assert told == [B]
    assert "resourceVersion=77" in queries[2]


def test_a_watch_that_ends_without_a_single_word_leads_to_a_list() -> None:
    informer, told, _ = follow(
        listed(1005, thing("a", 4)),
        stream(),
        listed(9, thing("b", 8)),
        forever,
        until=lambda each: each.lists == 2,
    )

    assert names(informer) == {"b"}
    assert told == [A, B, A]


def test_a_silent_watch_is_left_and_resumed() -> None:
    informer, _, queries = follow(
        listed(5),
        forever,
        stream(event("ADDED", thing("b", 6))),
        forever,
        until=lambda each: names(each) == {"b"},
    )

    assert informer.lists == 1
    assert "resourceVersion=5" in queries[2]


def test_a_line_of_a_megabyte_in_small_pieces_is_one_event() -> None:
    line = event("ADDED", thing("b", 6, padding="x" * 1_000_000))
    pieces = [line[start : start + 10_000] for start in range(0, len(line), 10_000)]
    informer, _, _ = follow(listed(5), stream(*pieces), forever, until=lambda each: "b" in names(each))

    assert names(informer) == {"b"}


def test_a_list_that_breaks_between_pages_is_begun_anew() -> None:
    first = {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [thing("a", 4)]}
    informer, _, queries = follow(
        answer(json.dumps(first).encode()),
        answer(json.dumps(GONE).encode(), code=410),
        listed(9, thing("b", 8)),
        forever,
        until=lambda each: each.synced,
    )

    assert names(informer) == {"b"}
    assert "continue" in queries[1]
    assert "continue" not in queries[2]


def test_a_store_is_not_synced_and_infinitely_old_before_its_first_list() -> None:
    informer, _, queries = follow(
        answer(b"", code=500, kind=""), answer(b"", code=500, kind=""), listed(5), forever,
        until=lambda each: each.synced or each.age_s < float("inf"),
    )  # fmt: skip

    assert len(queries) >= 3
    assert informer.age_s < 20


# Kinds that need not be there

ABSENT = answer(b'{"reason": "NotFound", "message": "the server could not find it"}', code=404)
DENIED = answer(b'{"reason": "Forbidden", "message": "may not list things"}', code=403)


def follow_optional(
    *answers: faultproxy.Answer, until: Callable[[Informer[Thing]], bool], absent_s: float = 0.02
) -> tuple[Informer[Thing], list[str]]:
    """The informer of an optional kind when that is so, and what it logged."""

    async def play() -> Informer[Thing]:
        async with faultproxy.scripted(*answers) as server, _client(server.url) as client:
            limits = replace(QUICK, absent_s=absent_s)
            informer = Informer(client, THINGS, limits=limits, is_optional=True)
            task = asyncio.create_task(informer.run())
            try:
                await polling.soon(lambda: until(informer), "what the test waits for is so")
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return informer

    with capture_logs() as logs:
        informer = asyncio.run(play())
    return informer, [str(each["event"]) for each in logs]


@pytest.mark.parametrize("no", [ABSENT, DENIED])
def test_a_kind_that_nobody_installed_counts_as_empty_until_somebody_does(no: bytes) -> None:
    informer, logged = follow_optional(
        no, no, no, listed(5, thing("a", 3)), forever, until=lambda i: i.lists == 1
    )

    assert (informer.synced, len(informer.store)) == (True, 1)
    assert logged == ["resource_absent"]


def test_an_absent_kind_is_seldom_asked_for_and_never_stale() -> None:
    informer, logged = follow_optional(ABSENT, until=lambda i: i.synced, absent_s=60)

    assert (informer.lists, len(informer.store)) == (0, 0)
    assert informer.age_s < 60
    assert logged == ["resource_absent"]


def test_a_kind_that_is_removed_takes_its_objects_along() -> None:
    informer, _ = follow_optional(
        listed(5, thing("a", 3)), ABSENT, until=lambda i: i.lists == 1 and len(i.store) == 0, absent_s=60
    )

    assert informer.synced


def test_a_right_that_was_lost_may_come_back_and_nothing_is_forgotten() -> None:
    added = stream(event("ADDED", thing("b", 6)))
    informer, logged = follow_optional(
        listed(5, thing("a", 3)), DENIED, DENIED, added, forever, until=lambda i: len(i.store) == 2
    )

    assert informer.lists == 1
    assert logged == ["watch_lost", "watch_lost"]
