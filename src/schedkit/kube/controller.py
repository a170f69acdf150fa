"""Workers that bring the world in line key by key, and the orderly start and end of all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import structlog

from schedkit.kube.errors import ConflictError, FencedError, UnavailableError
from schedkit.kube.informer import Informer
from schedkit.kube.queue import KeyedQueue

K = TypeVar("K", bound=Hashable)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile wants next."""

    after_s: float | None = None  # None: nothing, until something changes


DONE = Result()
Reconcile: TypeAlias = Callable[[K], Awaitable[Result]]
# Told about every reconcile: controller, outcome ("done", "later", "failed", "refused"), seconds.
Observer: TypeAlias = Callable[[str, str, float], None]


class TerminalError(Exception):
    """A failure that repeating cannot mend: the key rests until something changes."""


class Controller(Generic[K]):
    """Calls `reconcile` for each key of its queue: never twice at once for a key, many keys at once."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        queue: KeyedQueue[K] | None = None,
        workers: int = 16,
        limit_s: float = 120,
        observe: Observer | None = None,
    ) -> None:
        self.name = name
        self.queue: KeyedQueue[K] = queue or KeyedQueue()
        self._reconcile, self._workers, self._limit_s = reconcile, workers, limit_s
        self._observe = observe or (lambda *_: None)

    async def run(self) -> None:
        """Work until the queue is closed and the work at hand is done."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while (key := await self.queue.take()) is not None:
            started = time.monotonic()
            try:
                outcome = await self._once(key)
            finally:
                self.queue.done(key)
            self._observe(self.name, outcome, time.monotonic() - started)

    async def _once(self, key: K) -> str:
        """Reconcile, and decide from what came of it when the key's turn is next."""
        try:
            async with asyncio.timeout(self._limit_s):
                result = await self._reconcile(key)
        except TerminalError as error:
            self.queue.forget(key)
            self._say("reconcile_refused", key, error)
            return "refused"
        except Exception as error:  # noqa: BLE001  # one key's bug must not stop the others
            self._later(key, error)
            return "failed"
        self.queue.forget(key)
        if result.after_s is None:
            return "done"
        self.queue.add(key, after_s=result.after_s)
        return "later"

    def _later(self, key: K, error: Exception) -> None:
        wanted_s = error.retry_after_s if isinstance(error, UnavailableError) else None
        delay_s = self.queue.retry(key, at_least_s=wanted_s or 0)
        expected = isinstance(error, ConflictError | FencedError | UnavailableError)
        self._say("reconcile_delayed", key, error, retry_in_s=round(delay_s, 1), exc_info=not expected)

    def _say(self, what: str, key: K, error: Exception, **facts: object) -> None:
        reason = str(error) or type(error).__name__
        _log.warning(what, controller=self.name, key=str(key), reason=reason, **facts)


async def serve(
    informers: Sequence[Informer[Any]],
    controllers: Sequence[Controller[Any]],
    stop: asyncio.Event,
    *,
    grace_s: float = 20,
) -> None:
    """Fill the stores, then reconcile until `stop`; the work at hand is finished within the grace."""
    followers = [asyncio.create_task(each.run(), name=f"informer {each.resource}") for each in informers]
    workers: list[asyncio.Task[None]] = []
    try:
        if not await _unless(stop, [each.wait_synced() for each in informers], followers):
            return
        workers = [asyncio.create_task(each.run(), name=f"controller {each.name}") for each in controllers]
        await _unless(stop, [], [*followers, *workers])
    finally:
        await _wind_down(controllers, workers, followers, grace_s)


async def _unless(
    stop: asyncio.Event, wanted: Sequence[Awaitable[None]], tasks: Sequence[asyncio.Task[None]]
) -> bool:
    """Whether all that is wanted came before `stop`; with nothing wanted, wait for `stop`.

    None of the tasks ends by itself: if one does, its error is raised.
    """
    stopping = asyncio.ensure_future(stop.wait())
    arrived = asyncio.gather(*wanted) if wanted else asyncio.get_running_loop().create_future()
    try:
        done, _ = await asyncio.wait({stopping, arrived, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task in done:
                task.result()
                raise RuntimeError(f"{task.get_name()} ended by itself")
        return arrived in done
    finally:
        stopping.cancel()
        arrived.cancel()


async def _wind_down(
    controllers: Sequence[Controller[Any]],
    workers: Sequence[asyncio.Task[None]],
    followers: Sequence[asyncio.Task[None]],
    grace_s: float,
) -> None:
    for controller in controllers:
        controller.queue.close()
    if workers:
        await asyncio.wait(workers, timeout=grace_s)
    for task in (*workers, *followers):
        task.cancel()
    await asyncio.gather(*workers, *followers, return_exceptions=True)
