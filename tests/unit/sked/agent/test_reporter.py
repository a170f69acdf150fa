"""Reports reach the API server, whatever it answers first."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.operator import reportstore
from rig.operator.reportstore import TORN, Failure, ReportStore
from schedkit.kube.access.config import Connection
from schedkit.kube.access.credentials import TokenFile
from schedkit.kube.direct import DirectClient
from schedkit.model.api.schedextnode import NodeOwner, NodeOwnerKind, SchedExtNodeStatus
from schedkit.sked.agent.identity import Place
from schedkit.sked.agent.reporter import Reporter

PLACE = Place("node-1", "node-uid", "pod-uid")
OWNERS = [{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-uid"}]
TIMEOUT_S = 20.0


def status(number: int = 1) -> SchedExtNodeStatus:
    return SchedExtNodeStatus(
        node_uid="node-uid", state="enabled", enable_seq=number, owner=NodeOwner(kind=NodeOwnerKind.UNKNOWN)
    )


@pytest.fixture
def store() -> Iterator[ReportStore]:
    with reportstore.serving() as store:
        yield store


class Running:
    """A reporter at work, and what the API server has of it."""

    def __init__(self, store: ReportStore, **settings: float) -> None:
        self.store = store
        self.reporter = Reporter(DirectClient(store.connection, "sked/1 agent"), PLACE, **settings)

    async def until(self, number: int) -> None:
        """Wait until the API server has that report."""
        await self.until_that(lambda: self.store.status("node-1").get("enableSeq") == number)
        # the answer has to arrive as well
        await self.until_that(lambda: not self.reporter.is_overdue and self.written == number)

    async def until_that(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not holds():  # noqa: ASYNC110 - the store is in another thread
                await asyncio.sleep(0.005)

    @property
    def written(self) -> int | None:
        return self.reporter.written.enable_seq if self.reporter.written else None


def play(running: Running, do: Callable[[Running], Awaitable[Any]]) -> None:
    async def whole() -> None:
        work = asyncio.ensure_future(running.reporter.run())
        try:
            await do(running)
            assert not work.done()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    asyncio.run(whole())


def test_a_report_is_created_with_its_node_as_the_owner(store: ReportStore) -> None:
    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)

    play(Running(store), do)

    written = store.objects["node-1"]
    assert (written["apiVersion"], written["kind"]) == ("sked.schedkit.io/v1", "SchedExtNode")
    assert written["metadata"]["ownerReferences"] == OWNERS
    assert written["metadata"]["labels"] == {"velero.io/exclude-from-backup": "true"}
    assert written["status"]["owner"] == {"kind": "Unknown"}
    assert store.headers[0]["authorization"] == "Bearer a-token"


def test_a_change_is_written_over_what_is_there_and_the_same_is_not_written_again(store: ReportStore) -> None:
    async def do(running: Running) -> None:
        for number in (1, 2, 2, 2, 3, 3):
            running.reporter.want(status(number))
            await running.until(number)
        await asyncio.sleep(0.05)

    play(Running(store), do)

    assert store.asked == ["POST", "PATCH", "PATCH"]


def test_the_report_of_an_earlier_agent_is_read_and_then_changed(store: ReportStore) -> None:
    store.put("node-1", {"metadata": {}, "status": {"enableSeq": 7, "state": "enabled"}})

    async def do(running: Running) -> None:
        earlier = await running.reporter.read_patiently()
        assert earlier is not None
        assert (earlier.enable_seq, earlier.state) == (7, "enabled")
        running.reporter.want(status(8))
        await running.until(8)

    play(Running(store), do)

    assert store.asked == ["GET", "PATCH"]
    assert store.objects["node-1"]["metadata"]["ownerReferences"] == OWNERS


@pytest.mark.parametrize("strange", [{"state": 7}, {"owner": {"kind": "Martian"}}, None, 7])
def test_a_report_that_this_version_does_not_understand_is_replaced(
    store: ReportStore, strange: object
) -> None:
    store.put("node-1", {"metadata": {}, "status": strange})

    async def do(running: Running) -> None:
        assert await running.reporter.read_patiently() is None
        running.reporter.want(status(8))
        await running.until(8)

    play(Running(store), do)

    assert store.asked == ["GET", "PATCH"]


def test_a_conflict_is_read_again_and_written_over(store: ReportStore) -> None:
    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)
        store.put("node-1", {"metadata": {}, "status": {"enableSeq": 99}})
        running.reporter.want(status(2))
        await running.until(2)

    play(Running(store), do)

    assert store.asked == ["POST", "PATCH", "GET", "PATCH"]


def test_a_report_that_is_there_unexpectedly_is_written_over(store: ReportStore) -> None:
    store.put("node-1", {"metadata": {}, "status": {"enableSeq": 99}})

    async def do(running: Running) -> None:
        running.reporter.want(status(2))
        await running.until(2)

    play(Running(store), do)

    assert store.asked == ["POST", "GET", "PATCH"]


def test_a_report_that_was_deleted_when_it_is_to_be_changed_is_made_anew(store: ReportStore) -> None:
    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)
        store.delete("node-1")
        running.reporter.want(status(2))
        await running.until(2)

    play(Running(store), do)

    assert store.asked == ["POST", "PATCH", "GET", "POST"]


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "changed"])
def test_what_somebody_did_to_the_report_is_seen_and_undone(
    store: ReportStore, is_deleted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)
        if is_deleted:
            store.delete("node-1")
        else:
            store.put("node-1", {"metadata": {}, "status": {"enableSeq": 99}})
        await running.until(1)
        await running.until_that(lambda: store.asked.count("GET") >= 3)

    play(Running(store, read_again_s=0.05), do)

    assert store.asked.count("POST") + store.asked.count("PATCH") == 2
    assert capsys.readouterr().err.count("somebody else changed or deleted the report") == 1


def test_what_an_older_crd_drops_is_not_written_again_and_again(
    store: ReportStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.unknown_fields = ("state",)

    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)
        await running.until_that(lambda: store.asked.count("GET") >= 3)

    play(Running(store, read_again_s=0.05), do)

    assert store.asked.count("POST") + store.asked.count("PATCH") == 1
    assert "state" not in store.status("node-1")
    assert "somebody else" not in capsys.readouterr().err


def test_what_an_older_crd_dropped_is_there_some_time_after_its_upgrade(store: ReportStore) -> None:
    store.unknown_fields = ("state",)

    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)
        store.unknown_fields = ()
        await running.until_that(lambda: "state" in store.status("node-1"))

    play(Running(store, read_again_s=0.02), do)

    assert store.asked.count("POST") + store.asked.count("PATCH") == 2
    assert store.asked.count("GET") >= 12


def test_an_agent_of_which_nothing_is_written_yet_is_overdue(store: ReportStore) -> None:
    store.failures.append(Failure(503, "ServiceUnavailable"))

    seen: list[bool] = []

    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        seen.append(running.reporter.is_overdue)
        await running.until(1)
        seen.append(running.reporter.is_overdue)
        running.reporter.want(status(2))
        seen.append(running.reporter.is_overdue)

    play(Running(store), do)

    assert seen == [True, False, False]


def test_a_server_that_asks_for_patience_gets_it(store: ReportStore) -> None:
    store.failures.append(Failure(429, "TooManyRequests", retry_after="2"))

    async def do(running: Running) -> None:
        started = time.monotonic()
        running.reporter.want(status(1))
        await running.until(1)
        assert time.monotonic() - started >= 2

    play(Running(store), do)

    assert store.asked == ["POST", "POST"]


@pytest.mark.parametrize(
    "failure",
    [Failure(TORN), Failure(TORN, acts=True), Failure(503, "ServiceUnavailable")],
    ids=["nothing was done", "it was done, and nobody said so", "overloaded"],
)
def test_what_went_wrong_is_tried_again_and_said_once(
    store: ReportStore, failure: Failure, capsys: pytest.CaptureFixture[str]
) -> None:
    store.failures.append(failure)

    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)

    play(Running(store), do)

    assert capsys.readouterr().err.count('"report_not_written"') == 1


def test_a_cluster_that_knows_of_no_reports_is_asked_with_growing_patience(
    store: ReportStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.serves_reports = False

    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until_that(lambda: store.asked == ["POST"])
        await asyncio.sleep(0.3)
        assert store.asked == ["POST"]
        store.serves_reports = True
        await running.until(1)

    play(Running(store), do)

    assert capsys.readouterr().err.count("404 NotFound") == 1


def test_what_an_earlier_agent_wrote_is_asked_for_until_somebody_answers(store: ReportStore) -> None:
    store.put("node-1", {"metadata": {}, "status": {"enableSeq": 7}})
    store.failures.append(Failure(503, "ServiceUnavailable"))

    async def do(running: Running) -> None:
        earlier = await running.reporter.read_patiently()
        assert earlier is not None
        assert earlier.enable_seq == 7

    play(Running(store), do)

    assert store.asked == ["GET", "GET"]


def test_the_loop_goes_on_while_there_is_nothing_to_write_yet(store: ReportStore) -> None:
    """Also when the time has come to read the report again: nobody knows yet what it should say."""

    async def do(running: Running) -> None:
        await asyncio.wait_for(asyncio.sleep(0.1), timeout=TIMEOUT_S)
        assert running.reporter.is_overdue

    play(Running(store, read_again_s=0.01), do)

    assert store.asked == []


def test_an_api_server_may_have_an_address_of_ipv6_alone() -> None:
    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)
        running.reporter.want(status(2))
        await running.until(2)

    with reportstore.serving("::1") as store:
        assert store.url.startswith("http://[::1]:")
        play(Running(store), do)

    assert store.asked == ["POST", "PATCH"]


def token_of(node: str, uid: str, *, renewed: int = 0) -> str:
    claims = {
        "iat": renewed,
        "kubernetes.io": {"node": {"name": node, "uid": uid}, "pod": {"uid": "pod-uid"}},
    }
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()}.c2ln"


class Renewed(Running):
    """A reporter whose token is in a file, as the kubelet renews it."""

    def __init__(self, store: ReportStore, folder: Path) -> None:
        super().__init__(store, read_again_s=0.05)
        self.file = folder / "token"
        self.renew(token_of("node-1", "node-uid"))
        client = DirectClient(Connection(store.url, credentials=TokenFile(self.file)), "sked/1 agent")
        self.reporter = Reporter(client, PLACE, read_again_s=0.05)

    def renew(self, token: str) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(token)
        new.rename(self.file)


@pytest.mark.parametrize("has_news", [True, False])
def test_a_node_that_was_made_anew_is_reported_as_soon_as_the_token_names_it(
    store: ReportStore, tmp_path: Path, has_news: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy compares both: with the old UID each report would be refused for ever."""
    running = Renewed(store, tmp_path)

    async def do(_: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)
        running.renew(token_of("node-1", "new-uid"))
        running.reporter.want(status(2 if has_news else 1))
        await running.until_that(lambda: store.status("node-1")["nodeUID"] == "new-uid")
        running.reporter.want(status(3))  # what is seen is about the node of the agent's start
        await running.until(3)

    play(running, do)

    written = store.objects["node-1"]
    assert [each["uid"] for each in written["metadata"]["ownerReferences"]] == ["new-uid"]
    assert written["status"]["nodeUID"] == "new-uid"
    assert capsys.readouterr().err.count("node_made_anew") == 1


def test_a_token_that_was_merely_renewed_changes_nothing(
    store: ReportStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = Renewed(store, tmp_path)

    async def do(_: Running) -> None:
        running.reporter.want(status(1))
        await running.until(1)
        running.renew(new := token_of("node-1", "node-uid", renewed=1))
        await running.until_that(lambda: store.headers[-1]["authorization"] == f"Bearer {new}")

    play(running, do)

    assert store.asked.count("PATCH") == 0
    assert capsys.readouterr().err == ""


def test_why_a_report_is_refused_is_known_until_it_is_taken(store: ReportStore) -> None:
    store.failures.append(Failure(403, "Forbidden"))

    async def do(running: Running) -> None:
        running.reporter.want(status(1))
        await running.until_that(lambda: running.reporter.refusal == "Forbidden of the store")
        await running.until(1)
        assert running.reporter.refusal == ""

    play(Running(store), do)
