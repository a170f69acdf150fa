"""Kinds of objects as values, and the few fields of their metadata that a runtime needs.

Every field of an object is optional: a server may leave out anything, bookmarks leave out almost
everything, and one object without a `spec` must not end a watch over thousands.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from schedkit.model.api.schema import Unique


class Key(NamedTuple):
    """Which object of a kind."""

    namespace: str | None  # None: the kind has no namespaces
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Metadata(msgspec.Struct, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What identifies an object and its version: all that a cache itself needs."""

    name: Unique = ""
    namespace: str | None = None
    uid: Unique | None = None
    resource_version: Unique | None = None


class Named(Protocol):
    """The metadata that a cache needs. What an object does not have is None or empty."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def namespace(self) -> str | None:
        """Where it lives."""

    @property
    def resource_version(self) -> str | None:
        """Which version of it this is."""


class Described(Protocol):
    """Any object with metadata."""

    @property
    def metadata(self) -> Named | None:
        """Its name and version; None for what is no whole object."""


T = TypeVar("T", bound=Described)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind of object, where the API serves it, and the type its objects are decoded into."""

    group: str  # "": the core group
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True
    label: str = ""  # what to call them in logs and metrics, if others of their kind are kept apart

    @property
    def api_version(self) -> str:
        """As objects say it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return self.label or (f"{self.plural}.{self.group}" if self.group else self.plural)

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """Where the API serves that object, or the whole collection without a name."""
        if namespace and not self.namespaced:
            raise ValueError(f"{self} is not namespaced: leave out the namespace {namespace!r}")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self} is namespaced: give the namespace of {name!r}")
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        rest = "".join(f"/{quote(part, safe='')}" for part in (self.plural, name, subresource) if part)
        return f"{base}{place}{rest}"


def key_of(thing: Described) -> Key:
    """The key of an object; raise `ValueError` for one without a name."""
    if thing.metadata is None or not thing.metadata.name:
        raise ValueError("an object without metadata.name has no key")
    return Key(thing.metadata.namespace or None, thing.metadata.name)


def version_of(thing: Described) -> str | None:
    """The version the server gave it; None if it has none."""
    return (thing.metadata.resource_version if thing.metadata else None) or None


def timestamp(moment: dt.datetime) -> str:
    """That moment to the microsecond, as the API writes it."""
    return moment.astimezone(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
