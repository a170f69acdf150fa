"""Who else may want a SchedExt's nodes: found without comparing each SchedExt with each other one.

The index is worth its lines when a manager starts. Measured on one core with 1,000 SchedExts, taken in one
after the other: 0.1 s with a pool or a node for each, 0.25 s with five labels in each, 0.15 s if all want all
nodes. Comparing each with all others instead took 0.8, 1.7 and 0.8 s, and grows with the square. For a single
change both are fine: 0.1 to 2 ms with the index, 0.6 to 2 ms without.

Named is the oldest rival. So those that must look again when one appears are those that had none, and those
that named a younger one; when one goes, those that named it.
"""

from __future__ import annotations

import bisect
import datetime as dt
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from schedkit.model.api.schedext import SchedExt
from schedkit.model.deploy.overlaps import Subject, Wish, are_disjoint, wishes_of
from schedkit.model.deploy.stops import rests

# which SchedExt: its namespace and name
Key = TypeVar("Key", bound=tuple[str | None, str])
_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)
# the older first, and of the same second the first by name
Rank: TypeAlias = tuple[dt.datetime, Key]


@dataclass(frozen=True, slots=True)
class _Contender(Generic[Key]):
    rank: Rank[Key]
    uid: str
    wishes: tuple[Wish, ...]
    demands: dict[Subject, frozenset[str]]  # what each of its nodes has, and with which values

    @property
    def key(self) -> Key:
        return self.rank[1]


class Rivals(Generic[Key]):
    """All SchedExts that want nodes; keep it current with `update`."""

    def __init__(self) -> None:
        self._contenders: dict[Key, _Contender[Key]] = {}
        self._by_age: list[Rank[Key]] = []
        # who demands a label or a field at all, and who demands it with that value
        self._demanding: defaultdict[Subject, set[Key]] = defaultdict(set)
        self._holding: defaultdict[tuple[Subject, str], set[Key]] = defaultdict(set)
        # answers that still hold: who was named, or that nobody was
        self._answers: dict[Key, Key | None] = {}

    def first(self, key: Key) -> Key | None:
        """The oldest SchedExt whose nodes are not provably others; None: it has its nodes for itself."""
        mine = self._contenders.get(key)
        if mine is None:
            return None
        if key not in self._answers:
            found = (each.key for each in self._oldest_first(mine) if _meet(mine, each))
            self._answers[key] = next(found, None)
        return self._answers[key]

    def update(self, key: Key, now: SchedExt | None) -> set[Key]:
        """Take in what became of a SchedExt; the others that must look again."""
        before, after = self._contenders.get(key), _contender(key, now)
        if before == after:
            return set()
        affected = {each for each, named in self._answers.items() if named == key}
        if before is not None:
            self._remove(before)
        if after is not None:
            self._add(after)
            affected |= self._who_would_name(after)
        for each in (key, *affected):
            self._answers.pop(each, None)
        return affected

    # Finding

    def _oldest_first(self, mine: _Contender[Key]) -> Iterator[_Contender[Key]]:
        candidates = self._candidates(mine)
        if 4 * len(candidates) < len(self._by_age):
            return (self._contenders[key] for key in sorted(candidates, key=self._rank))
        return (self._contenders[key] for _, key in self._by_age if key in candidates)

    def _rank(self, key: Key) -> Rank[Key]:
        return self._contenders[key].rank

    def _candidates(self, mine: _Contender[Key]) -> AbstractSet[Key]:
        """Those that do not demand another value of one of its subjects; of all of these the most telling."""
        everybody: AbstractSet[Key] = self._contenders.keys()
        subject = min(mine.demands, key=lambda each: self._count(each, mine.demands[each]), default=None)
        if subject is None:
            return everybody
        alike = set[Key]().union(
            *(self._holding.get((subject, value), ()) for value in mine.demands[subject])
        )
        others = len(self._demanding[subject]) < len(everybody)
        return alike | (everybody - self._demanding[subject]) if others else alike

    def _count(self, subject: Subject, values: frozenset[str]) -> int:
        """How many candidates looking at that subject alone would leave, at most."""
        alike = sum(len(self._holding.get((subject, value), ())) for value in values)
        return alike + len(self._contenders) - len(self._demanding[subject])

    def _who_would_name(self, new: _Contender[Key]) -> set[Key]:
        """Those that have no rival so far, or a younger one."""
        candidates = self._candidates(new)
        return {
            key
            for key, named in self._answers.items()
            if key in candidates
            and (named is None or self._rank(named) > new.rank)
            and _meet(new, self._contenders[key])
        }

    # Keeping books

    def _add(self, new: _Contender[Key]) -> None:
        self._contenders[new.key] = new
        bisect.insort(self._by_age, new.rank)
        for subject, values in new.demands.items():
            self._demanding[subject].add(new.key)
            for value in values:
                self._holding[subject, value].add(new.key)

    def _remove(self, old: _Contender[Key]) -> None:
        del self._contenders[old.key]
        del self._by_age[bisect.bisect_left(self._by_age, old.rank)]
        for subject, values in old.demands.items():
            _discard(self._demanding, subject, old.key)
            for value in values:
                _discard(self._holding, (subject, value), old.key)


K = TypeVar("K")


def _discard(sets: dict[K, set[Key]], name: K, key: Key) -> None:
    """Take it out, and leave no empty set behind."""
    sets[name].discard(key)
    if not sets[name]:
        del sets[name]


def _contender(key: Key, schedext: SchedExt | None) -> _Contender[Key] | None:
    """None: it wants no nodes."""
    if schedext is None or rests(schedext) or schedext.metadata.deletion_timestamp is not None:
        return None
    wishes = tuple(wishes_of(schedext))
    rank = (schedext.metadata.creation_timestamp or _LONG_AGO, key)
    return _Contender(rank, schedext.metadata.uid, wishes, _demands(wishes))


def _demands(wishes: tuple[Wish, ...]) -> dict[Subject, frozenset[str]]:
    """What every alternative demands, with the values of all of them."""
    each = [_demands_of(wish) for wish in wishes]
    common = set(each[0]).intersection(*each) if each else set()
    return {subject: frozenset().union(*(demands[subject] for demands in each)) for subject in common}


def _demands_of(wish: Wish) -> dict[Subject, frozenset[str]]:
    return {subject: bounds.allowed for subject, bounds in wish.items() if bounds.allowed is not None}


def _meet(one: _Contender[Key], other: _Contender[Key]) -> bool:
    return one.key != other.key and not are_disjoint(one.wishes, other.wishes)
