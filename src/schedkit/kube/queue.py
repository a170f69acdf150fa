"""A queue of keys for several workers: no key twice, none at the same time, failing ones ever later."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from schedkit.kube.backoff import backoff, roll
from schedkit.kube.schedule import Agenda

K = TypeVar("K", bound=Hashable)


class KeyedQueue(Generic[K]):
    """Keys to work on; `take` one, work, and say `done` whatever came of it."""

    def __init__(
        self,
        *,
        spacing_s: float = 0,
        first_delay_s: float = 0.1,
        longest_delay_s: float = 300,
        group_of: Callable[[K], Hashable] | None = None,
    ) -> None:
        self._agenda: Agenda[K] = Agenda(spacing_s=spacing_s, group_of=group_of)
        self._first_delay_s, self._longest_delay_s = first_delay_s, longest_delay_s
        self._failures: dict[K, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None  # None: nothing is due later
        self.closed = False

    @property
    def depth(self) -> int:
        """Keys that wait."""
        return self._agenda.waiting

    @property
    def overdue(self) -> int:
        """Keys that are due but wait for a worker; 0 as long as there are enough of them."""
        return self._agenda.overdue

    def add(self, key: K, *, after_s: float = 0, urgent: bool = False) -> None:
        """Have it worked on, at once or later; `urgent` ignores the spacing and has a line of its own."""
        self._agenda.add(key, time.monotonic(), after_s=after_s, urgent=urgent)
        self._wake()

    def retry(self, key: K, *, at_least_s: float = 0) -> float:
        """Have a key that failed worked on again; in how many seconds, which doubles with each failure."""
        failures = self._failures[key] = self.failures(key) + 1
        delay_s = max(backoff(failures, self._first_delay_s, self._longest_delay_s, roll()), at_least_s)
        self.add(key, after_s=delay_s)
        return delay_s

    def failures(self, key: K) -> int:
        """How often it failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """It no longer fails: its next failure is its first."""
        self._failures.pop(key, None)

    async def take(self) -> K | None:
        """The next key, once there is one; None as soon as the queue is closed."""
        while not self.closed:
            key = self._agenda.pop(time.monotonic())
            if key is not None:
                self._wake()  # there may be a second key for a second taker
                return key
            await self._wait()
        return None

    def done(self, key: K) -> None:
        """The work on a key that was taken has ended."""
        self._agenda.done(key, time.monotonic())
        self._wake()

    def close(self) -> None:
        """Give out no more keys; what is being worked on goes on."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._takers:
            _fulfil(self._takers.popleft())

    async def _wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._takers.append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake()  # the turn passes to another taker
            raise
        finally:
            if turn in self._takers:
                self._takers.remove(turn)

    def _wake(self) -> None:
        """Give the longest waiting taker its turn if a key is due; otherwise come back when one is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = time.monotonic()
        due = self._agenda.next_due(now) if self._takers and not self.closed else None
        if due is None:
            return
        if due <= now:
            _fulfil(self._takers.popleft())
        else:
            self._timer = asyncio.get_running_loop().call_later(due - now, self._wake)


def _fulfil(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
