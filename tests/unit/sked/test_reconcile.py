"""What the operator makes of answers to its writes, from an API server that gives them on demand."""

from __future__ import annotations

import asyncio
import cProfile
import datetime as dt
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import msgspec
import pytest
from structlog.testing import capture_logs

from rig.base import polling
from rig.base.polling import play
from rig.builders.observations import (
    DAEMON_SET_UID,
    ago,
    daemon_set,
    observation,
    pod,
    running,
    schedext,
    through_json,
)
from rig.builders.reports import STALL, agent, attached, ended, node, report, served
from rig.cluster import faultproxy
from rig.cluster.faultproxy import Asked, answer, stream
from rig.cluster.kubeclient import JsonObject
from schedkit.kube.access.config import Connection
from schedkit.kube.backoff import Patience
from schedkit.kube.client import Client
from schedkit.kube.controller import DONE, Result, serve
from schedkit.kube.errors import FencedError
from schedkit.kube.events import Recorder
from schedkit.kube.resources import Key, key_of
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.pods import Pod
from schedkit.model.api.reports import ReportOwner, ReportStatus
from schedkit.model.api.schedext import SchedExt, SchedExtStatus
from schedkit.model.api.schedextnode import NodeOwnerKind
from schedkit.model.deploy.admission import vet
from schedkit.model.deploy.patch import differences
from schedkit.model.deploy.plan import CreateDaemonSet
from schedkit.model.deploy.render import render
from schedkit.model.report import believed_reports
from schedkit.model.trust.rules import TrustMode
from schedkit.sked import reconcile
from schedkit.sked.cache import Cluster
from schedkit.sked.manager import command
from schedkit.sked.reconcile import Reconciler
from schedkit.sked.settings import Settings
from schedkit.sked.trust.rules_folder import RuleFolder
from schedkit.sked.trust.verifications import Access, Verifications
from schedkit.sked.wiring import Manager

Reply: TypeAlias = Callable[[JsonObject], bytes]
TORN = b""  # the connection closes instead
QUOTA = answer(b'{"reason": "Forbidden", "message": "exceeded quota"}', code=403)
BROKEN = answer(b'{"reason": "InternalError", "message": "failed calling webhook"}', code=500)
CONFLICT = answer(b'{"reason": "Conflict"}', code=409)
MISSING = answer(b"{}", code=404)


class Api:
    """Serves one SchedExt, and answers each write as it is told to; the last answer of a kind is for ever."""

    def __init__(self, *served: tuple[str, msgspec.Struct], daemon_sets: list[bytes]) -> None:
        self.schedext: JsonObject = through_json(schedext("scx"))
        self.version = 10
        self.statuses: list[JsonObject] = []  # that were written
        self.events: list[JsonObject] = []
        self.tries = 0  # to write a DaemonSet
        self.last_try: Asked | None = None
        self.to_status: list[bytes] = []  # instead of the regular answer
        self.absent: set[str] = set()  # kinds that nobody installed
        self._served = {kind: through_json(thing) for kind, thing in served}
        self._changes: dict[str, asyncio.Queue[JsonObject]] = {}  # by kind, for watches to show
        self._to_daemon_sets = daemon_sets
        self._changed = asyncio.Event()

    async def answer(self, asked: Asked) -> bytes:
        path, _, query = asked.target.partition("?")
        kind = "agents" if "/sked-node/pods" in path else path.rpartition("/")[2]
        if asked.method == "GET":
            return await self._read(kind, query)
        if kind == "status":
            return self._write_status(json.loads(asked.body))
        if kind == "events":
            self.events.append(json.loads(asked.body))
            return answer(asked.body, code=201)
        self.tries, self.last_try = self.tries + 1, asked
        await asyncio.sleep(0.05)  # long enough for anybody who does not wait
        return self._to_daemon_sets[min(self.tries, len(self._to_daemon_sets)) - 1]

    async def _read(self, kind: str, query: str) -> bytes:
        if kind == "scx":
            return answer(json.dumps(self.schedext).encode())
        if "watch=1" in query:
            return await self._watched(kind)
        if kind in self.absent:
            return MISSING
        served = self._served | {"schedexts": self.schedext}
        items = [served[kind]] if kind in served else []
        return answer(json.dumps({"metadata": {"resourceVersion": "10"}, "items": items}).encode())

    async def _watched(self, kind: str) -> bytes:
        if kind != "schedexts":
            changed = await self._changes.setdefault(kind, asyncio.Queue()).get()
            return stream(json.dumps({"type": "MODIFIED", "object": changed}).encode() + b"\n")
        await self._changed.wait()
        self._changed.clear()
        return stream(json.dumps({"type": "MODIFIED", "object": self.schedext}).encode() + b"\n")

    def change(self, kind: str, thing: msgspec.Struct) -> None:
        """Have the watch of that kind show the object as it is from now on."""
        self._changes.setdefault(kind, asyncio.Queue()).put_nowait(through_json(thing))

    def _write_status(self, body: JsonObject) -> bytes:
        instead = self.to_status.pop(0) if self.to_status else None
        if instead == MISSING:
            return instead
        stored = self.schedext
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            return CONFLICT
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        stored["status"] = body["status"]
        self.statuses.append(body["status"])
        self._changed.set()
        return answer(json.dumps(stored).encode()) if instead is None else instead


def reason(status: JsonObject, kind: str = "Accepted") -> str:
    return next(str(each["reason"]) for each in status["conditions"] if each["type"] == kind)


@asynccontextmanager
async def manager(api: Api) -> AsyncIterator[Recorder]:
    """All of it but its lease, and without a process of its own."""
    patience = Patience(attempts=2, first_delay_s=0.01, longest_delay_s=0.02)
    with capture_logs():  # in colours, tracebacks cost seconds
        async with (
            faultproxy.scripted(api.answer) as server,
            Client(Connection(server.url), patience=patience) as client,
            _serving(client) as recorder,
        ):
            yield recorder


def unverified() -> Verifications:
    """Of somebody who trusts everybody."""
    return Verifications(RuleFolder(None, TrustMode.OFF), Access(), interval_s=600)


@asynccontextmanager
async def _serving(client: Client) -> AsyncIterator[Recorder]:
    recorder = Recorder(client, controller="test", instance="test")
    cluster, stop = Cluster(client), asyncio.Event()
    reconciler = Reconciler(cluster, client, recorder, unverified())
    serving = asyncio.create_task(serve(cluster.informers, reconciler.controllers, stop, grace_s=1))
    try:
        yield recorder
    finally:
        stop.set()
        await serving


@pytest.mark.parametrize(
    ("no", "tries"),
    # a patch that the server broke over is repeated at once
    [pytest.param(QUOTA, 3, id="a quota"), pytest.param(BROKEN, 6, id="a webhook that is down")],
)
def test_a_manager_that_starts_beside_what_refuses_its_daemon_sets_writes_no_status(
    no: bytes, tries: int
) -> None:
    """It has to be refused itself to know, and a pod that it sees at once is no reason to say anything."""
    old = daemon_set(schedext(args=("--old",)))
    placed = pod(container=running())
    meta = msgspec.structs.replace(placed.metadata, namespace="default")
    pods = msgspec.structs.replace(placed, metadata=meta)

    async def scenario() -> None:
        api = Api(("daemonsets", old), ("pods", pods), daemon_sets=[no])
        async with manager(api):
            await polling.soon(lambda: refused(api), "it is told")
        told, tried = len(api.statuses), api.tries

        async with manager(api):
            await polling.soon(lambda: api.tries >= tried + tries, "it tried again and again")
        assert api.statuses[told:] == []

    play(scenario)


# What nodes report


def in_default(placed: Pod) -> Pod:
    return msgspec.structs.replace(
        placed, metadata=msgspec.structs.replace(placed.metadata, namespace="default")
    )


def reporting_node(report: ReportStatus | None) -> Api:
    """A SchedExt with its pod on one node, whose agent is ready."""
    there = daemon_set(schedext("scx"))
    reports = (("schedextnodes", served(report)),) if report else ()
    return Api(
        ("daemonsets", there),
        ("pods", in_default(pod(container=running(60), start_time=ago(62)))),
        ("nodes", node()),
        ("agents", agent()),
        *reports,
        daemon_sets=[answer(json.dumps(through_json(there)).encode())],
    )


def ready(api: Api) -> str:
    return reason(api.statuses[-1], "Ready") if api.statuses else ""


def test_a_report_that_arrives_makes_the_schedext_ready() -> None:
    async def scenario() -> None:
        api = reporting_node(None)
        async with manager(api):
            await polling.soon(lambda: ready(api) == "ReportMissing", "the report is missed")
            api.change("schedextnodes", served(attached()))
            await polling.soon(lambda: ready(api) == "Attached", "it is proved")
        assert api.statuses[-1]["nodes"]["attached"] == 1

    play(scenario)


def on_nodes(api: Api) -> list[JsonObject]:
    return [each for each in api.events if each["regarding"]["kind"] == "Node"]


def test_an_eject_is_told_at_once_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "_STATUS_SPACING_S", 60.0)

    async def scenario() -> None:
        api = reporting_node(attached())
        async with manager(api) as recorder:
            await polling.soon(lambda: ready(api) == "Attached", "it is proved")
            api.change("schedextnodes", served(report(exits=(STALL,)), version=41))
            await polling.soon(lambda: ready(api) == "Ejected", "the eject is told")
            await _flushed(recorder, lambda: bool(on_nodes(api)))
            again = msgspec.structs.replace(STALL, count=2, log_time=2)
            api.change("schedextnodes", served(report(exits=(again,)), version=42))
            await polling.soon(lambda: "2 times" in str(api.statuses[-1]), "the next one is told")
            await recorder.flush(within_s=5)
        assert [(each["reason"], each["type"]) for each in on_nodes(api)] == [("Ejected", "Warning")]
        told = next(each for each in api.statuses[-1]["conditions"] if each["type"] == "Ready")
        assert "stress[42] failed to run for 5.001s" in told["message"]

    play(scenario)


def test_an_orderly_end_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "_STATUS_SPACING_S", 60.0)

    async def scenario() -> None:
        api = reporting_node(attached())
        async with manager(api):
            await polling.soon(lambda: ready(api) == "Attached", "it is proved")
            api.change("schedextnodes", served(report(exits=(ended(64),)), version=41))
            api.change("nodes", node(resource_version="31"))
            await asyncio.sleep(0.3)  # nothing is to be seen, so nothing can be waited for
        assert ready(api) == "Attached"

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "changed", "expected"),
    [
        pytest.param("nodes", node(boot="next", resource_version="31"), "OtherBoot", id="a reboot"),
        pytest.param(
            "schedextnodes",
            served(attached(ReportOwner(kind=NodeOwnerKind.FOREIGN)), version=41),
            "Conflicted",
            id="somebody else's scheduler",
        ),
    ],
)
def test_what_is_seen_of_a_node_wakes_its_schedexts(
    kind: str, changed: msgspec.Struct, expected: str
) -> None:
    async def scenario() -> None:
        api = reporting_node(attached())
        async with manager(api):
            await polling.soon(lambda: ready(api) == "Attached", "it is proved")
            api.change(kind, changed)
            await polling.soon(lambda: ready(api) == expected, "it is noticed")

    play(scenario)


def test_an_agent_that_falls_silent_is_believed_for_two_minutes_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(believed_reports, "REPORT_LASTS", dt.timedelta(seconds=0.5))

    async def scenario() -> None:
        api = reporting_node(attached())
        async with manager(api):
            await polling.soon(lambda: ready(api) == "Attached", "it is proved")
            api.change("agents", agent(ready=False, version=51))
            await polling.soon(lambda: ready(api) == "AgentSilent", "its time is over")
            api.change("agents", agent(version=52))
            await polling.soon(lambda: ready(api) == "Attached", "it is believed again")

    play(scenario)


def test_without_agents_and_their_kind_all_is_as_ever() -> None:
    async def scenario() -> None:
        there = daemon_set(schedext("scx"))
        api = Api(
            ("daemonsets", there),
            ("pods", in_default(pod(container=running(60)))),
            daemon_sets=[answer(json.dumps(through_json(there)).encode())],
        )
        api.absent = {"schedextnodes"}
        async with manager(api):
            await polling.soon(lambda: api.statuses, "it is reported")
        assert ready(api) == "NoKernelReports"
        assert api.statuses[-1]["nodes"]["unknown"] == 1

    play(scenario)


def refused(api: Api) -> bool:
    return bool(api.statuses) and reason(api.statuses[-1]) == "DaemonSetRefused"


def test_a_server_that_broke_once_has_refused_nothing() -> None:
    async def scenario() -> None:
        made = json.dumps({"metadata": {"name": "scx", "namespace": "default", "uid": "its-own"}})
        api = Api(daemon_sets=[BROKEN, answer(made.encode(), code=201)])
        async with manager(api):
            await polling.soon(lambda: api.statuses, "it is reported")
        assert {reason(each) for each in api.statuses}.isdisjoint({"DaemonSetRefused"})

    play(scenario)


def test_a_status_whose_answer_was_lost_is_followed_by_its_events() -> None:
    async def scenario() -> None:
        api = Api(daemon_sets=[QUOTA])
        api.to_status = [TORN]
        async with manager(api) as recorder:
            await polling.soon(lambda: api.statuses, "it is written")
            await _flushed(recorder, lambda: bool(api.events))
        assert {each["reason"] for each in api.events} >= {"DaemonSetRefused"}
        assert len(api.statuses) == 1

    play(scenario)


def test_nobody_is_told_about_a_schedext_that_was_deleted_before_its_status_was_written() -> None:
    async def scenario() -> None:
        api = Api(daemon_sets=[QUOTA])
        api.to_status = [MISSING] * 50
        async with manager(api) as recorder:
            await polling.soon(lambda: len(api.to_status) < 50, "the server says that it is gone")
            await polling.soon(lambda: api.tries >= 4, "the manager lives on")
            await recorder.flush(within_s=5)
        assert api.events == []

    play(scenario)


def test_a_suspended_one_loses_the_very_daemon_set_that_was_seen_and_no_successor_of_its_name() -> None:
    suspended = schedext("scx", suspend=True)

    async def scenario() -> None:
        api = Api(("daemonsets", daemon_set(suspended)), daemon_sets=[answer(b"{}")])
        api.schedext = through_json(suspended)
        async with manager(api):
            asked = await polling.soon(lambda: api.last_try, "it is deleted")
        assert (asked.method, json.loads(asked.body)["preconditions"]) == ("DELETE", {"uid": DAEMON_SET_UID})

    play(scenario)


def test_no_daemon_set_is_made_for_one_that_was_deleted_and_made_anew_meanwhile() -> None:
    seen = msgspec.structs.replace(schedext("scx"), status=SchedExtStatus())  # it had one before
    meta = msgspec.structs.replace(seen.metadata, uid="its-successors-own")

    assert asked_to_create(seen, msgspec.structs.replace(seen, metadata=meta)) == ["GET"]


def test_a_manager_whose_cache_is_behind_starts_nothing_that_was_stopped() -> None:
    seen = msgspec.structs.replace(schedext("scx"), status=SchedExtStatus())
    stopped = msgspec.structs.replace(schedext("scx", stop="3 a.m."), status=SchedExtStatus())

    assert asked_to_create(seen, stopped) == ["GET"]


def asked_to_create(seen: SchedExt, there: SchedExt) -> list[str]:
    """What is asked of an API server that has it so, to make the DaemonSet of the one that was seen."""
    found = json.dumps(through_json(there)).encode()

    async def scenario() -> list[str]:
        async with faultproxy.scripted(answer(found)) as server, Client(Connection(server.url)) as client:
            recorder = Recorder(client, controller="c", instance="i")
            reconciler = Reconciler(Cluster(client), client, recorder, unverified())
            await reconciler.perform(key_of(seen), observation(seen), CreateDaemonSet(daemon_set(seen)))
            return [each.method for each in server.asked]

    return asyncio.run(scenario())


def test_what_a_manager_writes_waits_for_its_lease() -> None:
    words = ["--leader-elect", "--namespace", "sked-system"]
    settings = Settings(**command.make_context("manager", words).params)
    wanted = schedext("scx")

    async def scenario() -> None:
        async with faultproxy.scripted(QUOTA) as server, AsyncExitStack() as stack:
            manager = Manager(settings, Connection(server.url), stack)
            write = CreateDaemonSet(daemon_set(wanted))
            with pytest.raises(FencedError, match="no longer holds the lease"):
                await manager._reconciler.perform(key_of(wanted), observation(wanted), write)  # noqa: SLF001 - that it was put together so shows only when a lease is lost
        assert server.asked == []

    play(scenario)


@pytest.mark.parametrize("work", ["deploy", "report"])
@pytest.mark.parametrize(
    ("there", "args", "counts"),
    [
        pytest.param(None, (), (1, 1, 0), id="there is no DaemonSet yet"),
        pytest.param(daemon_set(schedext("scx")), (), (1, 1, 1), id="all is as it should be"),
        pytest.param(daemon_set(schedext("scx")), ("--new",), (1, 1, 1), id="the spec changed"),
    ],
)
def test_one_reconcile_vets_renders_and_compares_once(
    work: str, there: DaemonSet | None, args: tuple[str, ...], counts: tuple[int, ...]
) -> None:
    asked, profile = schedext("scx", args=args), cProfile.Profile()

    async def scenario() -> None:
        written = json.dumps(through_json(daemon_set(asked))).encode()
        api = Api(daemon_sets=[answer(written)])
        async with faultproxy.scripted(api.answer) as server, Client(Connection(server.url)) as client:
            cluster = Cluster(client)
            cluster.schedexts.store.put(asked)
            if there is not None:
                cluster.daemon_sets.store.put(there)
            recorder = Recorder(client, controller="c", instance="i")
            reconciler = Reconciler(cluster, client, recorder, unverified())
            profile.enable()
            await getattr(reconciler, work)(key_of(asked))
            profile.disable()

    play(scenario)
    called = {each.code: each.callcount for each in profile.getstats()}
    assert tuple(called.get(each.__code__, 0) for each in (vet, render, differences)) == counts


async def _flushed(recorder: Recorder, until: Callable[[], bool]) -> None:
    """Whatever is recorded is written until that is so."""

    async def probe() -> bool:
        await recorder.flush(within_s=5)
        return until()

    await polling.eventually(probe, "events are written", timeout_s=10)


@pytest.mark.parametrize(("patience_s", "next_step"), [(60.0, Result(1.0)), (0.0, DONE)])
def test_statuses_wait_while_daemon_sets_wait_for_a_worker_but_not_for_ever(
    patience_s: float, next_step: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "YIELDS_S", patience_s)
    mine, another = Key("default", "scx"), Key("default", "another")

    async def scenario() -> None:
        async with Client(Connection("http://127.0.0.1:9")) as client:  # which nobody asks
            recorder = Recorder(client, controller="c", instance="i")
            reconciler = Reconciler(Cluster(client), client, recorder, unverified())
            assert await reconciler.report(mine) == DONE  # there is no such SchedExt

            reconciler.deploying.queue.add(another)
            assert await reconciler.report(mine) == next_step

    play(scenario)


def test_an_eject_waits_for_no_daemon_set() -> None:
    mine, another = schedext("scx"), Key("default", "another")

    async def scenario() -> None:
        api = Api(daemon_sets=[answer(b"{}")])
        async with faultproxy.scripted(api.answer) as server, Client(Connection(server.url)) as client:
            cluster = Cluster(client)
            cluster.schedexts.store.put(mine)
            cluster.pods.store.put(in_default(pod(container=running())))
            recorder = Recorder(client, controller="c", instance="i")
            reconciler = Reconciler(cluster, client, recorder, unverified())
            await reconciler.deploy(key_of(mine))
            reconciler.deploying.queue.add(another)
            assert await reconciler.report(key_of(mine)) == Result(1.0)
            assert api.statuses == []

            cluster.reports._put(served(report(exits=(STALL,))))  # noqa: SLF001 - as its watch does
            await reconciler.report(key_of(mine))
            assert len(api.statuses) == 1

    play(scenario)
