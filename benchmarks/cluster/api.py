"""The API server, asked with as little work per request as possible: bodies are bytes already.

What is measured shares the machine with us, so that every cycle spent here is one that it does not have.
Nothing is retried: a request that fails would spoil the measurement anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Self, TypeVar

import aiohttp
import msgspec

from rig.base.errors import RigError
from schedkit.kube.access.config import discover

T = TypeVar("T")

WRITERS = 16
MERGE_PATCH = "application/merge-patch+json"
_WATCH_S = 3600


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Listed(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] = []


class Api:
    """One user's requests, many at once; usable as `async with`."""

    def __init__(self, kubeconfig: Path) -> None:
        connection = discover(kubeconfig)
        connector = aiohttp.TCPConnector(limit=0, ssl=connection.tls or True)
        self._session = aiohttp.ClientSession(
            connection.server, connector=connector, timeout=aiohttp.ClientTimeout(total=None)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(
        self, method: str, path: str, body: bytes | None = None, *, kind: str = "application/json"
    ) -> bytes:
        """The answer; raise if it is a refusal."""
        headers = {"Content-Type": kind} if body is not None else {}
        async with self._session.request(method, path, data=body, headers=headers) as response:
            answer = await response.read()
        if response.status >= 300:
            raise RigError(f"{method} {path}: {response.status} {answer[:500]!r}")
        return answer

    async def listed(self, path: str) -> tuple[int, str]:
        """How many objects there are, and the version to watch from."""
        found = msgspec.json.decode(await self.send("GET", path), type=_Listed)
        return len(found.items), found.metadata.resource_version

    async def watch(self, path: str, version: str) -> AsyncIterator[bytes]:
        """Each event after that version as a line, until the server ends the watch."""
        words = "&" if "?" in path else "?"
        query = f"{words}watch=1&resourceVersion={version}&timeoutSeconds={_WATCH_S}"
        async with self._session.get(path + query) as response:
            if response.status >= 300:
                raise RigError(f"watching {path}: {response.status} {(await response.read())[:500]!r}")
            async for line in response.content:
                yield line


async def in_parallel(
    work: Callable[[T], Awaitable[object]], items: Iterable[T], *, writers: int = WRITERS
) -> None:
    """Do the work for each item, so many at once; the first failure ends all."""
    waiting = iter(items)

    async def take_turns() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(take_turns())
