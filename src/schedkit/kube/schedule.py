"""Which key is to be worked on next: a decision over values, without clock, waiting or I/O."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Agenda(Generic[K]):
    """Keys that are due, due later, or being worked on; each key is in one of these at most once.

    A key that is added while it is worked on becomes due again afterwards, so that what happened meanwhile is
    seen. Keys come out in the order in which they became due; one that returns goes to the end of the line.
    With `group_of`, that is the order within a group, and groups take turns.
    With `spacing_s`, work on a key begins at most once in that time unless it is urgent. What is urgent has a
    line of its own, so that it does not wait behind all the others; the two lines take turns.
    """

    def __init__(self, *, spacing_s: float = 0, group_of: Callable[[K], Hashable] | None = None) -> None:
        self._spacing_s = spacing_s
        self._ready, self._urgent = Turns[K](group_of), Turns[K](group_of)
        self._lines = [self._urgent, self._ready]  # the one whose turn it is first
        self._later: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []  # what is not in `_later` with this very time is void
        self._order = itertools.count()
        self._busy: set[K] = set()
        self._again: dict[K, float] = {}  # busy keys that were added meanwhile, and when they are due
        self._urgent_again: set[K] = set()  # those of them that are urgent
        self._spaced: dict[K, float] = {}  # when work on a key may begin again; the soonest first

    @property
    def waiting(self) -> int:
        """Keys that are due now or later."""
        return self.overdue + len(self._later) + len(self._again)

    @property
    def overdue(self) -> int:
        """Keys that are due, and nobody has taken them."""
        return len(self._ready) + len(self._urgent)

    def add(self, key: K, now: float, *, after_s: float = 0, urgent: bool = False) -> None:
        """Make it due then; of several times for one key the soonest counts."""
        due = now + after_s
        if not urgent:
            due = max(due, self._spaced.get(key, due))
        if key in self._busy:
            self._again[key] = min(due, self._again.get(key, due))
            if urgent:
                self._urgent_again.add(key)
        else:
            self._schedule(key, due, now, urgent=urgent)

    def pop(self, now: float) -> K | None:
        """The key that has been due for longest, now busy; None if none is due."""
        self._promote(now)
        line = next((each for each in self._lines if each), None)
        key = line.pop() if line else None
        if line is None or key is None:
            return None
        self._lines.sort(key=lambda each: each is line)  # the other one is first the next time
        self._busy.add(key)
        self._space(key, now)
        return key

    def done(self, key: K, now: float) -> None:
        """The work on it ended; it is due again if it was added meanwhile."""
        self._busy.remove(key)
        due, is_urgent = self._again.pop(key, None), key in self._urgent_again
        self._urgent_again.discard(key)
        if due is not None:
            self._schedule(key, due, now, urgent=is_urgent)

    def next_due(self, now: float) -> float | None:
        """When `pop` will have an answer; None: not before something is added."""
        self._promote(now)
        if self.overdue:
            return now
        return self._heap[0][0] if self._heap else None

    def _schedule(self, key: K, due: float, now: float, *, urgent: bool) -> None:
        if key in self._urgent or (key in self._ready and not urgent):
            return
        if due <= now:
            self._later.pop(key, None)
            self._ready.discard(key)
            (self._urgent if urgent else self._ready).add(key)
        elif key not in self._ready and due < self._later.get(key, float("inf")):
            self._later[key] = due
            heapq.heappush(self._heap, (due, next(self._order), key))

    def _promote(self, now: float) -> None:
        """Move what has become due in line; forget what is void."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._later.get(key) == due:
                if due > now:
                    return
                del self._later[key]
                self._ready.add(key)
            heapq.heappop(self._heap)

    def _space(self, key: K, now: float) -> None:
        if not self._spacing_s:
            return
        self._spaced.pop(key, None)
        self._spaced[key] = now + self._spacing_s
        while (first := next(iter(self._spaced))) != key and self._spaced[first] <= now:
            del self._spaced[first]


class Turns(Generic[K]):
    """Keys in line, none twice; in their group's order, and of several groups one key each in turn."""

    def __init__(self, group_of: Callable[[K], Hashable] | None = None) -> None:
        self._group_of = group_of or (lambda _: None)
        self._lines: dict[Hashable, dict[K, None]] = {}  # none is empty; the one whose turn it is first
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, key: K) -> bool:
        return key in self._lines.get(self._group_of(key), ())

    def add(self, key: K) -> None:
        """To the end of its group's line; it stays where it is if it is there already."""
        if key not in self:
            self._lines.setdefault(self._group_of(key), {})[key] = None
            self._length += 1

    def discard(self, key: K) -> None:
        """Take it out of line, if it is there."""
        group = self._group_of(key)
        if key in self:
            del self._lines[group][key]
            self._length -= 1
            if not self._lines[group]:
                del self._lines[group]

    def pop(self) -> K | None:
        """The next, whose group goes behind the others; None: nobody is in line."""
        if not self._lines:
            return None
        group = next(iter(self._lines))
        line = self._lines.pop(group)
        key = next(iter(line))
        del line[key]
        if line:
            self._lines[group] = line
        self._length -= 1
        return key
