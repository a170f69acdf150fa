"""Bytes to objects: single ones, pages of lists, and the events of a watch.

One object that does not fit its declared type, or that has no name, is left out with what is known of it; it
never spoils the others.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import aiohttp
import msgspec

from schedkit.kube import errors
from schedkit.kube.errors import DecodeError
from schedkit.kube.interning import sharing
from schedkit.kube.resources import Described, Key, Resource, key_of

T = TypeVar("T", bound=Described)
# stands for all objects without a name: nothing can be called that
NAMELESS = Key(None, "(nameless)")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some objects of a list; `version` is that of the whole list."""

    items: list[T]
    version: str
    continues: str = ""  # "": this is the last page
    misfits: dict[Key, str] = field(default_factory=dict)  # what could not be decoded, and why


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One line of a watch."""

    kind: str  # ADDED, MODIFIED, DELETED or BOOKMARK
    version: str
    key: Key | None = None  # None: a bookmark
    object: T | None = None  # None: a bookmark, or it does not fit; `misfit` says why
    misfit: str = ""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bare(msgspec.Struct):
    """Of an object, only what every object has, whatever is in it."""

    metadata: dict[str, Any] = {}


_RAW_LIST = msgspec.json.Decoder(_RawList)
_RAW_EVENT = msgspec.json.Decoder(_RawEvent)
_BARE = msgspec.json.Decoder(_Bare)


class Codec(Generic[T]):
    """Decodes what the API says about one kind."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        self._decode: Callable[[Any], T] = msgspec.json.Decoder(resource.type).decode
        self._share = sharing(resource.type)

    def one(self, body: bytes | msgspec.Raw) -> T:
        """The object; raise `DecodeError` if it does not fit."""
        try:
            return self._decode(body)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"{self._resource}: {error}") from error

    def _kept(self, body: msgspec.Raw) -> T:
        """The object, to be kept among many: what it has in common with others is shared with them."""
        found = self.one(body)
        if found.metadata is None or not found.metadata.name:
            raise DecodeError(f"{self._resource}: an object has no metadata.name")
        self._share(found)
        return found

    def page(self, body: bytes) -> Page[T]:
        """A page of a list, without the objects that do not fit."""
        try:
            raw = _RAW_LIST.decode(body)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"the answer is not a list of {self._resource}: {error}") from error
        items: list[T] = []
        misfits: dict[Key, str] = {}
        for each in raw.items or ():
            try:
                items.append(self._kept(each))
            except DecodeError as error:
                misfits[_identity(each)[0]] = str(error)
        return Page(items, raw.metadata.resource_version, raw.metadata.continue_, misfits)

    def event(self, line: bytes) -> Event[T]:
        """A line of a watch; raise what it stands for if it is an error, `DecodeError` if it is no event."""
        try:
            raw = _RAW_EVENT.decode(line)
            if raw.type == "ERROR":
                status = errors.read_status(bytes(raw.object))
                raise errors.failure(status.code or 500, status)
            return self._change(raw)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"a line in the watch of {self._resource} is not an event: {error}") from error

    def _change(self, raw: _RawEvent) -> Event[T]:
        if raw.type == "BOOKMARK":
            return Event(raw.type, _identity(raw.object)[1])
        try:
            found = self._kept(raw.object)
        except DecodeError as error:
            key, version = _identity(raw.object)
            return Event(raw.type, version, key, misfit=str(error))
        version = (found.metadata.resource_version if found.metadata else None) or ""
        return Event(raw.type, version, key_of(found), found)


_made = functools.lru_cache(maxsize=64)(Codec)


def codec(resource: Resource[T]) -> Codec[T]:
    """The decoder of a kind, made once."""
    made: Codec[T] = _made(resource)
    return made


def _identity(body: msgspec.Raw) -> tuple[Key, str]:
    """Key and version of an object of which nothing else is understood, as far as it has them."""
    try:
        metadata = _BARE.decode(body).metadata
    except msgspec.MsgspecError:
        return NAMELESS, ""
    fields = (metadata.get(field) for field in ("namespace", "name", "resourceVersion"))
    namespace, name, version = (field if isinstance(field, str) else "" for field in fields)
    return Key(namespace or None, name) if name else NAMELESS, version


async def lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines of any length; half a line at the end of a broken connection is dropped.

    aiohttp's own reader gives up on long lines, and an object may take more than a megabyte.
    """
    pending = bytearray()
    async for chunk in stream.iter_any():
        if b"\n" not in chunk:
            pending += chunk
            continue
        first, *whole, rest = chunk.split(b"\n")
        yield bytes(pending + first)
        for line in whole:
            yield line
        pending = bytearray(rest)
