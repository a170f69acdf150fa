"""Workers that bring the world in line key by key, and the orderly start and end of all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import structlog

from schedkit.kube.errors import KubeError, UnavailableError
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
# Told about every reconcile: controller, outcome ("done", "later", "failed"), seconds.
Observer: TypeAlias = Callable[[str, str, float], None]


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
        # whatever the server said, its words say it all; where in our code it was heard helps nobody
        is_our_mistake = not isinstance(error, KubeError)
        _log.warning(
            "reconcile_delayed",
            controller=self.name,
            key=str(key),
            reason=str(error) or type(error).__name__,
            retry_in_s=round(delay_s, 1),
            exc_info=is_our_mistake,
        )


# Does some work as long as this process may, and gives the right back: `lease.Elector.lead`.
Lead: TypeAlias = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
# Something that goes on until it is cancelled.
Activity: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


async def serve(
    informers: Sequence[Informer[Any]],
    controllers: Sequence[Controller[Any]],
    stop: asyncio.Event,
    *,
    lead: Lead | None = None,
    beside: Sequence[Activity] = (),
    grace_s: float = 20,
) -> None:
    """Fill the stores, then reconcile until `stop`; the work at hand is finished within the grace.

    With `lead`, reconciling begins when it lets it; the stores are kept current from the start. What goes on
    `beside` all the time never ends by itself: an error of it is an error of all.
    """
    followers = [asyncio.create_task(each.run(), name=f"informer {each.resource}") for each in informers]
    followers += [asyncio.create_task(each(), name=repr(each)) for each in beside]
    try:
        if not await _unless(stop, [each.wait_synced() for each in informers], followers):
            return
        shift = _Shift(controllers, stop, grace_s)
        await _until_over(shift, (lead or _at_once)(shift.work), stop, followers)
    finally:
        await _cancel(followers)


async def _at_once(work: Callable[[], Awaitable[None]]) -> None:
    await work()


class _Shift:
    """All controllers at work, from when they may to when they are told to stop."""

    def __init__(self, controllers: Sequence[Controller[Any]], stop: asyncio.Event, grace_s: float) -> None:
        self._controllers, self._stop, self._grace_s = controllers, stop, grace_s
        self.has_begun = False

    async def work(self) -> None:
        """Reconcile until `stop`, and finish what is at hand."""
        self.has_begun = True
        workers = [
            asyncio.create_task(each.run(), name=f"controller {each.name}") for each in self._controllers
        ]
        try:
            await _unless(self._stop, [], workers)
            for controller in self._controllers:
                controller.queue.close()
            await asyncio.wait(workers, timeout=self._grace_s)
        finally:
            await _cancel(workers)


async def _until_over(
    shift: _Shift, leading: Awaitable[None], stop: asyncio.Event, followers: Sequence[asyncio.Task[None]]
) -> None:
    """Return when the shift is over, or `stop` came before it began; raise what broke it or a follower."""
    working = asyncio.ensure_future(leading)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping, *followers}, return_when=asyncio.FIRST_COMPLETED)
        _raise_if_ended(followers)
        if working.done() or shift.has_begun:
            await working
    finally:
        stopping.cancel()
        await _cancel([working])


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
        _raise_if_ended(tasks)
        return arrived in done
    finally:
        stopping.cancel()
        arrived.cancel()


def _raise_if_ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()
            raise RuntimeError(f"{task.get_name()} ended unexpectedly")


async def _cancel(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
