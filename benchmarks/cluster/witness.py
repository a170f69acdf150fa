"""The third client: it sees when DaemonSets come and statuses become right, and remembers the moments."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Self, TypeVar

import msgspec

from benchmarks.cluster.api import Api
from benchmarks.cluster.objects import daemon_sets_path, is_right, schedexts_path
from rig.base import polling
from rig.base.errors import RigError
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.schedext import SchedExt

T = TypeVar("T")


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""
    generation: int = 0


class _Condition(msgspec.Struct):
    type: str = ""
    reason: str = ""


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    conditions: list[_Condition] = []


class _Object(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Object


class _Whole(msgspec.Struct):
    object: msgspec.Raw


_EVENT = msgspec.json.Decoder(_Event)
_WHOLE = msgspec.json.Decoder(_Whole)


class Witness:
    """Watches one namespace from its entry on; moments are of the monotonic clock."""

    def __init__(self, api: Api, namespace: str, *, reason: str = "RollingOut") -> None:
        self.came: dict[str, float] = {}  # when each DaemonSet was first seen
        self.reported: dict[str, float] = {}  # when each status came to give that reason for Deployed
        self._api, self._namespace, self._reason = api, namespace, reason
        self._last: dict[str, dict[str, bytes]] = {"daemonset": {}, "schedext": {}}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for kind, path in (
            ("daemonset", daemon_sets_path(self._namespace)),
            ("schedext", schedexts_path(self._namespace)),
        ):
            _, version = await self._api.listed(path)
            self._tasks.append(asyncio.create_task(self._follow(kind, path, version)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: str, path: str, version: str) -> None:
        """The server may end a watch when it is busy: it is resumed where it was."""
        while True:
            async for line in self._api.watch(path, version):
                event = _EVENT.decode(line)
                if event.type == "ERROR":
                    raise RigError(f"the watch of {path} broke: {line[:500]!r}")
                version = event.object.metadata.resource_version
                self._take(kind, event, line)

    def _take(self, kind: str, event: _Event, line: bytes) -> None:
        now, name = time.monotonic(), event.object.metadata.name
        if event.type == "DELETED":
            return
        self._last[kind][name] = line
        if kind == "daemonset":
            self.came.setdefault(name, now)
        elif self._is_reported(event.object):
            self.reported.setdefault(name, now)
        else:
            self.reported.pop(name, None)

    def _is_reported(self, schedext: _Object) -> bool:
        reasons = (each.reason for each in schedext.status.conditions if each.type == "Deployed")
        is_current = schedext.status.observed_generation >= schedext.metadata.generation
        return is_current and self._reason in reasons

    async def all_came(self, names: Iterable[str], *, timeout_s: float) -> float:
        """The moment at which the last of these DaemonSets came."""
        return await self._all(self.came, set(names), "DaemonSets", timeout_s)

    async def all_reported(self, names: Iterable[str], *, timeout_s: float) -> float:
        """The moment at which the last of their statuses gave the awaited reason."""
        return await self._all(self.reported, set(names), "statuses", timeout_s)

    async def _all(self, moments: dict[str, float], names: set[str], what: str, timeout_s: float) -> float:
        def are_there() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            return names <= moments.keys()

        try:
            await polling.soon(are_there, what, timeout_s=timeout_s)
        except RigError as error:
            have = len(names & moments.keys())
            raise RigError(f"{have} of {len(names)} {what} after {timeout_s:.0f} s") from error
        return max(moments[name] for name in names)

    def wrong(self, names: Iterable[str]) -> list[str]:
        """Those whose DaemonSet or status is not what sked would write, compared field by field."""
        return [name for name in names if not self._is_right(name)]

    def _is_right(self, name: str) -> bool:
        schedext = _decoded(self._last["schedext"][name], SchedExt)
        return is_right(schedext, _decoded(self._last["daemonset"][name], DaemonSet))


def _decoded(line: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(_WHOLE.decode(line).object, type=kind)
