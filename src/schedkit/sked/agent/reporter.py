"""Writes this node's report: when the model says so, and until the API server has it."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from schedkit.kube.access.config import Connection
from schedkit.kube.direct import DirectClient
from schedkit.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KubeError,
    NotFoundError,
    UnavailableError,
)
from schedkit.kube.resources import Resource
from schedkit.model.api.schedextnode import (
    MAX_WORDS,
    OwnerReference,
    SchedExtNodeMeta,
    SchedExtNodeStatus,
)
from schedkit.model.node import pacing
from schedkit.model.node.exits import bounded
from schedkit.model.node.pacing import Pace
from schedkit.model.node.report import is_same_report
from schedkit.sked.agent import journal
from schedkit.sked.agent.identity import Place, place_of_token
from schedkit.sked.kinds import SCHEDEXT_NODES

NOT_BACKED_UP = {"velero.io/exclude-from-backup": "true"}
_READ_AGAIN_S = 300.0
_PRUNED_AGAIN = 12  # comparisons until a part that was dropped is sent once more: about an hour
PATIENCE_S = 10.0  # something unsent for longer makes the agent not ready


class _Stored(msgspec.Struct, frozen=True):
    """A report as it is there, whatever it says."""

    metadata: SchedExtNodeMeta = SchedExtNodeMeta()
    status: msgspec.Raw = msgspec.Raw(b"")


_STORED = Resource(
    SCHEDEXT_NODES.group,
    SCHEDEXT_NODES.version,
    SCHEDEXT_NODES.plural,
    SCHEDEXT_NODES.kind,
    _Stored,
    namespaced=SCHEDEXT_NODES.namespaced,
)


class Reporter:
    """One object of the API server, and what it should say."""

    def __init__(self, client: DirectClient, place: Place, *, read_again_s: float = _READ_AGAIN_S) -> None:
        self._client, self._place, self._read_again_s = client, place, read_again_s
        self._pace = Pace()
        self._wanted: SchedExtNodeStatus | None = None
        self._version = ""  # of the object; empty: there is none, or it is not known
        self._stored: SchedExtNodeStatus | None = None  # what became of what was written
        self._comparisons = 0  # since then
        self._failures = 0
        self._token: str | None = None  # the one that `place` is of; None: nothing was asked yet
        self._refusal = ""
        self._news = asyncio.Event()
        self._read_again_at = time.monotonic() + _spread(read_again_s)

    @property
    def connection(self) -> Connection:
        """The way to the API server."""
        return self._client.connection

    @property
    def written(self) -> SchedExtNodeStatus | None:
        """What the API server has."""
        return self._pace.written

    @property
    def is_overdue(self) -> bool:
        """Whether the API server has nothing of this agent's, or something is unsent for too long."""
        if self._wanted is None or self._pace.written is None:
            return True
        return pacing.is_overdue(self._pace, self._wanted, time.monotonic(), patience_s=PATIENCE_S)

    @property
    def refusal(self) -> str:
        """Why the API server did not take the last report, in its own words; empty: it did not say."""
        return self._refusal

    async def read(self) -> SchedExtNodeStatus | None:
        """What an earlier agent wrote; None: nothing."""
        await self._follow_token()
        try:
            found = await self._call(self._client.get, _STORED, self._place.node)
        except NotFoundError:
            self._version = ""
            return None
        self._version = found.metadata.resource_version
        return _understood(found.status)

    async def read_patiently(self) -> SchedExtNodeStatus | None:
        """The same, as soon as the API server answers: what it has is not to be told twice."""
        while True:
            try:
                return self._resume(await self.read())
            except KubeError as error:
                self._fail(error)
                await asyncio.sleep(max(0.0, self._pace.retry_at - time.monotonic()))

    def _resume(self, found: SchedExtNodeStatus | None) -> SchedExtNodeStatus | None:
        """What is there already is not written again, and counts for the limit."""
        if found is not None and found.reported_at is not None:
            age_s = (dt.datetime.now(dt.UTC) - found.reported_at).total_seconds()
            self._pace = pacing.resumed(found, age_s, time.monotonic())
            self._stored = found
        return found

    def want(self, status: SchedExtNodeStatus) -> None:
        """Have the API server know that, soon."""
        self._wanted = msgspec.structs.replace(status, node_uid=self._place.node_uid)
        self._pace = pacing.wanted(self._pace, self._wanted, time.monotonic())
        self._news.set()

    async def run(self) -> None:
        """Write what is wanted, until cancelled."""
        while True:
            await self._wait()
            if self._wanted is None:
                continue  # it is not known yet what there is to write
            now = time.monotonic()
            due = pacing.next_write(self._pace, self._wanted, now)
            if due is not None and due <= now:
                await self._write()
            elif now >= self._read_again_at:
                await self._compare()

    async def _wait(self) -> None:
        now = time.monotonic()
        self._news.clear()
        if self._wanted is None:
            await self._news.wait()
            return
        due = pacing.next_write(self._pace, self._wanted, now)
        until = self._read_again_at if due is None else min(due, self._read_again_at)
        if until > now:
            # `wait_for` may swallow that we are cancelled, if there are news in the same moment (Python 3.11)
            with suppress(TimeoutError):
                async with asyncio.timeout(until - now):
                    await self._news.wait()

    async def _write(self) -> None:
        status = self._wanted or SchedExtNodeStatus()
        self._pace = pacing.attempted(self._pace, status, time.monotonic())
        try:
            await self._follow_token()
            status = self._wanted or status  # of another Node, by another token
            found = await self._put(status)
        except (ConflictError, AlreadyExistsError):
            await self._look_again()
        except KubeError as error:
            if isinstance(error, NotFoundError) and self._version:
                await self._look_again()
            else:
                self._fail(error)  # also where the API server does not know of reports at all
        else:
            self._version, self._failures, self._refusal = found.metadata.resource_version, 0, ""
            # an older CRD drops what it does not know: as its answer shows, nobody else has changed that
            self._stored, self._comparisons = _understood(found.status), 0
            self._pace = pacing.succeeded(self._pace, status)

    async def _follow_token(self) -> None:
        """A Node that was made anew under a living pod has another UID: a renewed token tells it."""
        token, before = await self._client.connection.credentials.token(), self._token
        self._token = token
        if before in {None, token}:
            return
        place = place_of_token(token)
        if place == self._place:
            return
        journal.say("warning", "node_made_anew", reason="the token is of another Node object of this name")
        self._place = place
        if self._wanted:
            self.want(self._wanted)

    async def _put(self, status: SchedExtNodeStatus) -> _Stored:
        if not self._version:
            return await self._call(self._client.create, _STORED, self._object(status))
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": self._version},
            {"op": "add", "path": "/metadata/ownerReferences", "value": [self._node()]},
            {"op": "add", "path": "/status", "value": status},
        ]
        return await self._call(self._client.change, _STORED, patch, self._place.node)

    def _object(self, status: SchedExtNodeStatus) -> dict[str, object]:
        meta = SchedExtNodeMeta(name=self._place.node, labels=NOT_BACKED_UP, owner_references=(self._node(),))
        kind = {"apiVersion": SCHEDEXT_NODES.api_version, "kind": SCHEDEXT_NODES.kind}
        return {**kind, "metadata": meta, "status": status}

    def _node(self) -> OwnerReference:
        """Who takes the report along; its deletion waits for nothing."""
        return OwnerReference(api_version="v1", kind="Node", name=self._place.node, uid=self._place.node_uid)

    async def _look_again(self) -> None:
        """Somebody wrote in between: it is written anew, over what is there now."""
        try:
            await self.read()
        except KubeError as error:
            self._fail(error)

    async def _compare(self) -> None:
        """See that the API server still has what was written."""
        self._read_again_at = time.monotonic() + _spread(self._read_again_s)
        try:
            found = await self.read()
        except KubeError as error:
            self._fail(error)
            return
        self._comparisons += 1
        is_changed = found is None or found != self._stored
        if is_changed:
            journal.say("warning", "report_changed", reason="somebody else changed or deleted the report")
        if is_changed or (self._is_pruned and self._comparisons >= _PRUNED_AGAIN):
            self._pace = pacing.forgotten(self._pace)

    @property
    def _is_pruned(self) -> bool:
        """Whether an older CRD dropped a part of what was written; meanwhile it may be a newer one."""
        return not is_same_report(self._stored, self._pace.written)

    def _fail(self, error: KubeError) -> None:
        asked = error.retry_after_s if isinstance(error, UnavailableError) else None
        wait_s = pacing.patience_s(self._failures, asked, random.random())  # noqa: S311 - no secret
        self._failures += 1
        self._pace = pacing.failed(self._pace, time.monotonic(), retry_after_s=wait_s)
        self._refusal = bounded(error.message, MAX_WORDS) if isinstance(error, ApiError) else ""
        if self._failures == 1:
            journal.say("warning", "report_not_written", reason=str(error))

    async def _call(self, ask: Callable[..., _Stored], *args: object) -> _Stored:
        """In a thread: the loop goes on, and can say that an answer is missing."""
        return await asyncio.to_thread(ask, *args, token=self._token)


def _understood(status: msgspec.Raw) -> SchedExtNodeStatus | None:
    """What an agent of another version may have written; None: there is nothing that this one understands."""
    try:
        return msgspec.json.decode(status, type=SchedExtNodeStatus) if status else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _spread(seconds: float) -> float:
    """With jitter: thousands of agents must not come at once."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
