"""A line in which groups take turns: a crowd of one group is in its own way alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


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
