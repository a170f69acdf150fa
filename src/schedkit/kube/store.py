"""The last known state of all objects of a kind, findable by key and by indexes.

Objects in it are shared: read them, never change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from typing import Generic, TypeAlias, TypeVar

from schedkit.kube.resources import Described, Key, key_of, version_of

T = TypeVar("T", bound=Described)
# The values under which an object is found; none leaves it out of the index.
Index: TypeAlias = Callable[[T], Iterable[str]]


class Store(Generic[T]):
    """Objects by key; each index is kept current with every change."""

    def __init__(self, indexes: Mapping[str, Index[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes = dict(indexes or {})
        self._found: dict[str, dict[str, set[Key]]] = {name: {} for name in self._indexes}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: Key) -> T | None:
        """The object; None if there is none."""
        return self._objects.get(key)

    def keys(self) -> KeysView[Key]:
        """The keys of all objects."""
        return self._objects.keys()

    def by(self, index: str, value: str) -> list[T]:
        """The objects that the index finds under the value, in the order of their keys."""
        return [self._objects[key] for key in sorted(self._found[index].get(value, ()))]

    def put(self, thing: T) -> tuple[bool, T | None]:
        """Take it in; whether it differs from what was there, and that."""
        key = key_of(thing)
        old = self._objects.get(key)
        if old is not None and version_of(old) is not None and version_of(old) == version_of(thing):
            return False, old
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = thing
        for name, index in self._indexes.items():
            for value in index(thing):
                self._found[name].setdefault(value, set()).add(key)
        return True, old

    def drop(self, key: Key) -> T | None:
        """Forget it; what it was, None if it was not there."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._unindex(key, old)
        return old

    def _unindex(self, key: Key, old: T) -> None:
        for name, index in self._indexes.items():
            found = self._found[name]
            for value in index(old):
                keys = found.get(value, set())
                keys.discard(key)
                if not keys:
                    found.pop(value, None)
