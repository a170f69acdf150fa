"""Events on objects, for people: repeated ones counted, floods thinned out, failures never in the way."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import structlog

from schedkit.kube.client import Client
from schedkit.kube.errors import KubeError, NotFoundError
from schedkit.kube.resources import Metadata, Resource, timestamp

_log = structlog.get_logger()
_NOTE_BYTES = 1024  # the API takes no more


class Event(msgspec.Struct, gc=False):
    """An event as the API has it; we only write them."""

    metadata: Metadata | None = None


EVENTS = Resource("events.k8s.io", "v1", "events", "Event", Event)


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None  # None: it has none; its events lie in `default`
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened; equal ones are the same thing happening again."""

    regarding: Reference
    reason: str  # CamelCase, for machines
    note: str  # a sentence, for people
    action: str = "Reconcile"
    kind: Literal["Normal", "Warning"] = "Normal"


@dataclass(slots=True)
class _Written:
    name: str
    count: int
    at: float


class Recorder:
    """Writes what is recorded, in the background, a few a second; start it with `run`.

    The same occurrence again within `window_s` raises the count of its event instead of making another.
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        per_second: float = 5,
        burst: int = 25,
        waiting: int = 500,
        window_s: float = 600,
    ) -> None:
        self._client, self._controller, self._instance = client, controller, instance
        self._pause_s, self._burst, self._window_s = 1 / per_second, burst, window_s
        self._pending: OrderedDict[Occurrence, int] = OrderedDict()  # how often each happened since
        self._waiting = waiting
        self._arrived = asyncio.Event()
        self._written: OrderedDict[Occurrence, _Written] = OrderedDict()  # the longest unwritten first
        self.dropped = 0  # occurrences nobody will read about

    def record(self, occurrence: Occurrence) -> None:
        """Have it written some time soon; never fails and never waits."""
        if occurrence not in self._pending and len(self._pending) >= self._waiting:
            self.dropped += 1
            return
        self._pending[occurrence] = self._pending.get(occurrence, 0) + 1
        self._arrived.set()

    async def run(self) -> None:
        """Write until cancelled."""
        tokens, refilled = float(self._burst), time.monotonic()
        while True:
            await self._arrived.wait()
            now = time.monotonic()
            tokens, refilled = min(self._burst, tokens + (now - refilled) / self._pause_s), now
            if tokens < 1:
                await asyncio.sleep((1 - tokens) * self._pause_s)
                continue
            tokens -= 1
            await self.write_one()

    async def flush(self, *, within_s: float) -> None:
        """Write what waits, as far as time allows; the rest is lost, and counted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._pending:
                    await self.write_one()
        if self._pending:
            self.dropped += sum(self._pending.values())
            _log.warning("events_lost", count=sum(self._pending.values()))

    async def write_one(self) -> None:
        """Write what has waited longest, if anything does."""
        if not self._pending:
            self._arrived.clear()
            return
        occurrence, times = self._pending.popitem(last=False)
        try:
            await self._write(occurrence, times)
        except asyncio.CancelledError:
            self.dropped += times
            raise
        except KubeError as error:
            self.dropped += times
            _log.warning("event_not_written", about=occurrence.reason, reason=str(error))

    async def _write(self, occurrence: Occurrence, times: int) -> None:
        self._forget_old()
        known = self._written.pop(occurrence, None)
        if known is None or not await self._repeat(occurrence, known, times):
            known = await self._create(occurrence, times)
        known.at = time.monotonic()
        self._written[occurrence] = known

    def _forget_old(self) -> None:
        oldest = time.monotonic() - self._window_s
        while self._written and next(iter(self._written.values())).at < oldest:
            self._written.popitem(last=False)

    async def _repeat(self, occurrence: Occurrence, known: _Written, times: int) -> bool:
        """Raise the count of an event; whether it is still there."""
        count = known.count + times
        body = {"series": {"count": count, "lastObservedTime": _now()}}
        try:
            await self._client.patch(EVENTS, body, known.name, _namespace(occurrence))
        except NotFoundError:
            return False
        known.count = count
        return True

    async def _create(self, occurrence: Occurrence, times: int) -> _Written:
        about, now = occurrence.regarding, _now()
        # the time makes it another event than the last of its kind, whose window is over
        digest = hashlib.sha256(f"{occurrence} {now} {self._instance}".encode()).hexdigest()[:16]
        name = f"{about.name[:200]}.{digest}"
        body: dict[str, Any] = {
            "metadata": {"name": name, "namespace": _namespace(occurrence)},
            "eventTime": now,
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": occurrence.action,
            "reason": occurrence.reason,
            "type": occurrence.kind,
            "note": occurrence.note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "regarding": _reference(about),
        }
        if times > 1:
            body["series"] = {"count": times, "lastObservedTime": now}
        await self._client.create(EVENTS, body, _namespace(occurrence))
        return _Written(name, times, time.monotonic())


def _reference(about: Reference) -> dict[str, str]:
    pairs = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "name": about.name,
        "namespace": about.namespace or "",
        "uid": about.uid,
    }
    return {name: value for name, value in pairs.items() if value}


def _namespace(occurrence: Occurrence) -> str:
    return occurrence.regarding.namespace or "default"


def _now() -> str:
    return timestamp(dt.datetime.now(dt.UTC))
