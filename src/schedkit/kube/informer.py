"""Keeps a store equal to what the API server has, through everything that can happen to a watch.

A list in pages, then a watch from the list's version on. A watch that ends, breaks or falls silent is
resumed from the last version seen. When the server has forgotten that version, or never knew it, a new
list is compared with the store, so that what was deleted in between is noticed as well.

A kind that need not be there, because nobody has to install it, counts as empty for as long as it is absent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import structlog

from schedkit.kube.backoff import backoff, roll
from schedkit.kube.client import EVERYTHING, Client, Selection
from schedkit.kube.decoding import Event, codec, lines
from schedkit.kube.errors import DecodeError, ForbiddenError, GoneError, KubeError, NotFoundError
from schedkit.kube.resources import Described, Key, Resource, key_of
from schedkit.kube.store import Index, Store

T = TypeVar("T", bound=Described)
# Which keys somebody else has to look at because of an object: its own, its owner's, ...
Keys: TypeAlias = Callable[[T], Iterable[Key]]
Notify: TypeAlias = Callable[[Key], None]
# Told about each change: what the object was and what it is; None: it did not or does not exist.
Listener: TypeAlias = Callable[[T | None, T | None], None]

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """How an informer lists and watches."""

    page: int = 100  # objects per page: what is decoded without a pause, and held twice in memory
    watch_s: int = 240  # the server ends a watch after that time, and a new one begins
    silence_s: float = 270  # a watch without a byte for that long is dead; more than `watch_s`
    relist_s: float = 3600  # a fresh list after that time, should anything have gone unnoticed
    first_delay_s: float = 0.5
    longest_delay_s: float = 30
    absent_s: float = 120  # how often an absent kind is asked for: less than what probes call stale


class Informer(Generic[T]):
    """The store of one kind, and who wants to know about its changes."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        indexes: Mapping[str, Index[T]] | None = None,
        limits: Limits | None = None,
        is_optional: bool = False,
    ) -> None:
        self.resource, self._is_optional = resource, is_optional
        self.store: Store[T] = Store(indexes)
        self.misfits: dict[Key, str] = {}  # objects that exist but cannot be decoded, and why
        self.lists = 0  # how often everything was listed
        self._client, self._selection, self._limits = client, selection, limits or Limits()
        self._listeners: list[Listener[T]] = []
        self._synced = asyncio.Event()
        self._version: str | None = None  # where to resume; None: list first
        self._listed_at = self._alive_at = float("-inf")
        self._failures = 0  # attempts to follow since the last event
        self._is_absent = False  # only of an optional kind

    # What others ask

    @property
    def synced(self) -> bool:
        """Whether the store has held everything at least once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return when the store holds everything."""
        await self._synced.wait()

    @property
    def age_s(self) -> float:
        """Seconds since the server last proved that the store is current; infinite before the first time."""
        return time.monotonic() - self._alive_at

    def subscribe(self, notify: Notify, keys: Keys[T] | None = None) -> None:
        """Call `notify` with the keys of each object that appears, changes (as it was and is) or goes."""
        named: Keys[T] = keys or _own_key

        def tell(old: T | None, new: T | None) -> None:
            for key in {key for thing in (old, new) if thing is not None for key in named(thing)}:
                notify(key)

        self.listen(tell)

    def listen(self, listener: Listener[T]) -> None:
        """Tell it about each change, after the store has it and in the order of subscriptions."""
        self._listeners.append(listener)

    # Following the server

    async def run(self) -> None:
        """Follow the server until cancelled; no failure ends it."""
        limits = self._limits
        while True:
            self._failures += 1
            try:
                await self._follow()
                self._failures = 0
                continue
            except GoneError as error:
                self._version = None
                self._say("version_forgotten", error)
            except KubeError as error:
                if self._counts_as_absent(error):
                    self._empty(error)
                    await asyncio.sleep(limits.absent_s * (0.8 + 0.4 * roll()))
                    continue
                self._say("watch_lost", error)
            failures = max(self._failures, 1)
            await asyncio.sleep(backoff(failures, limits.first_delay_s, limits.longest_delay_s, roll()))

    async def _follow(self) -> None:
        """One list, if need be, and one watch to its regular end."""
        if self._version is None or time.monotonic() - self._listed_at > self._limits.relist_s:
            await self._list()
        if not await self._watch():
            # Not one bookmark: a quiet kind looks like that, but so does a version from the future, after the
            # server was restored from a backup. A list tells, and of a quiet kind it is cheap.
            self._version = None

    def _counts_as_absent(self, error: KubeError) -> bool:
        """Nobody installed the kind, or the right to read it; a right that is lost later may come back."""
        if not self._is_optional:
            return False
        is_refused = isinstance(error, ForbiddenError) and (self._is_absent or not self.synced)
        return isinstance(error, NotFoundError) or is_refused

    def _empty(self, error: KubeError) -> None:
        """The store holds everything there is: nothing. That is told once."""
        if not self._is_absent:
            _log.info("resource_absent", resource=str(self.resource), reason=str(error))
        self._is_absent, self._version, self.misfits = True, None, {}
        for key in tuple(self.store.keys()):
            self._drop(key)
        self._alive_at = time.monotonic()
        self._synced.set()

    async def _list(self) -> None:
        self._version = None
        seen: set[Key] = set()
        misfits: dict[Key, str] = {}
        version = ""
        async for page in self._client.pages(self.resource, self._selection, limit=self._limits.page):
            for thing in page.items:
                seen.add(key_of(thing))
                self._put(thing)
            misfits |= page.misfits
            version = page.version
            await asyncio.sleep(0)  # others may run between pages, also when the next is already here
        for key in self.store.keys() - seen - misfits.keys():
            self._drop(key)
        for key in misfits.keys() - self.misfits.keys():
            self._say("object_misfit", DecodeError(misfits[key]), key=str(key))
        self.misfits = misfits
        self._version = version
        self._listed_at = self._alive_at = time.monotonic()
        self.lists += 1
        self._is_absent = False
        self._synced.set()

    async def _watch(self) -> bool:
        """Follow one watch to its regular end; whether it brought anything."""
        limits, spoke = self._limits, False
        async with self._client.watch(
            self.resource,
            self._selection,
            version=self._version or "",
            lasts_s=limits.watch_s,
            silence_s=limits.silence_s,
        ) as stream:
            async for line in lines(stream):
                self._take(codec(self.resource).event(line))
                spoke = True
        self._alive_at = time.monotonic()
        return spoke

    def _take(self, event: Event[T]) -> None:
        self._alive_at = time.monotonic()
        if event.key is not None:
            self._change(event, event.key)
        self._failures = 0
        # last: an event that could not be taken in is asked for again
        self._version = event.version or self._version

    def _change(self, event: Event[T], key: Key) -> None:
        self.misfits.pop(key, None)
        if event.kind == "DELETED":
            self._drop(key)
        elif event.object is not None:
            self._put(event.object)
        else:
            # what was last understood stays: to forget it would look like a deletion
            self.misfits[key] = event.misfit
            self._say("object_misfit", DecodeError(event.misfit), key=str(key))

    def _put(self, thing: T) -> None:
        differs, old = self.store.put(thing)
        if differs:
            self._tell(old, thing)

    def _drop(self, key: Key) -> None:
        old = self.store.drop(key)
        if old is not None:
            self._tell(old, None)

    def _tell(self, old: T | None, new: T | None) -> None:
        for listener in self._listeners:
            listener(old, new)

    def _say(self, what: str, error: Exception, **facts: str) -> None:
        _log.warning(what, resource=str(self.resource), reason=str(error), **facts)


def _own_key(thing: Described) -> Iterable[Key]:
    return (key_of(thing),)
