"""The verbs of the API, typed: objects come back as the type their resource declares.

Bodies are sent as given. A type that declares only some fields is for reading: sending it with
`update` would erase all the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypeVar

import aiohttp
import msgspec

from schedkit.kube.access.config import Connection
from schedkit.kube.backoff import Patience
from schedkit.kube.decoding import Page, codec
from schedkit.kube.errors import NotFoundError
from schedkit.kube.fence import Fence, no_fence
from schedkit.kube.resources import Described, Resource
from schedkit.kube.transport import Observer, Request, Transport

T = TypeVar("T", bound=Described)
Body: TypeAlias = Mapping[str, Any] | msgspec.Struct
Operations: TypeAlias = Sequence[msgspec.Struct]  # of a JSON patch

_JSON, _MERGE = "application/json-patch+json", "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind: those of a namespace, with these labels and fields; all by default."""

    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """As the API wants it."""
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in pairs.items() if value}


EVERYTHING = Selection()


class Client:
    """One user's requests to one API server; usable as `async with`."""

    def __init__(
        self,
        connection: Connection,
        *,
        patience: Patience | None = None,
        user_agent: str = "schedkit",
        observe: Observer | None = None,
        fence: Fence = no_fence,
        transport: Transport | None = None,
    ) -> None:
        self.namespace = connection.namespace
        self._connection, self._fence, self._patience = connection, fence, patience or Patience()
        self._transport = transport or Transport(connection, user_agent=user_agent, observe=observe)

    def fenced(self, fence: Fence, *, patience: Patience | None = None) -> Client:
        """The same connections, with each request asking that fence right before it is sent."""
        patience = patience or self._patience
        return Client(self._connection, patience=patience, fence=fence, transport=self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections; open watches end with them."""
        await self._transport.close()

    # Reading

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """The object as it is now."""
        request = Request("GET", resource.path(namespace=namespace, name=name))
        return codec(resource).one(await self._ask(request))

    async def find(self, resource: Resource[T], name: str, namespace: str | None = None) -> T | None:
        """The object as it is now; None if there is none."""
        try:
            return await self.get(resource, name, namespace)
        except NotFoundError:
            return None

    async def pages(
        self, resource: Resource[T], selection: Selection = EVERYTHING, *, limit: int = 500
    ) -> AsyncIterator[Page[T]]:
        """All objects, in pages of one snapshot; raise `GoneError` if that is forgotten in between."""
        path = resource.path(namespace=selection.namespace)
        query = {"limit": str(limit), **selection.query()}
        while True:
            page = codec(resource).page(await self._ask(Request("GET", path, query)))
            yield page
            if not page.continues:
                return
            query["continue"] = page.continues

    def watch(
        self, resource: Resource[T], selection: Selection, *, version: str, lasts_s: int, silence_s: float
    ) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        """The raw stream of changes after that version, for `lasts_s` by the server's clock."""
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(lasts_s),
            **selection.query(),
        }
        request = Request("GET", resource.path(namespace=selection.namespace), query)
        return self._transport.stream(request, silence_s=silence_s)

    # Writing

    async def create(self, resource: Resource[T], body: Body, namespace: str | None = None) -> T:
        """Create it; not repeated when the server may already have done so."""
        request = Request("POST", resource.path(namespace=namespace), body=_encode(body))
        return codec(resource).one(await self._ask(request))

    async def update(
        self,
        resource: Resource[T],
        body: Body,
        name: str,
        namespace: str | None = None,
        *,
        status: bool = False,
    ) -> T:
        """Replace it, or its status; only that version of it if `metadata.resourceVersion` says which."""
        path = resource.path(namespace=namespace, name=name, subresource="status" if status else "")
        return codec(resource).one(await self._ask(Request("PUT", path, body=_encode(body))))

    async def patch(
        self,
        resource: Resource[T],
        body: Body,
        name: str,
        namespace: str | None = None,
        *,
        status: bool = False,
    ) -> T:
        """Merge these fields into it; `metadata.uid` or `resourceVersion` in them are preconditions."""
        path = resource.path(namespace=namespace, name=name, subresource="status" if status else "")
        request = Request("PATCH", path, body=_encode(body), content_type=_MERGE)
        return codec(resource).one(await self._ask(request))

    async def change(
        self, resource: Resource[T], operations: Operations, name: str, namespace: str | None = None
    ) -> T:
        """A JSON patch: all operations or none; one on `metadata.resourceVersion` is a precondition."""
        path = resource.path(namespace=namespace, name=name)
        body = msgspec.json.encode(operations)
        return codec(resource).one(await self._ask(Request("PATCH", path, body=body, content_type=_JSON)))

    async def delete(
        self, resource: Resource[T], name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> None:
        """Ask for its deletion, and that of what it owns after it; of that very object only, if given."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid} if uid is not None else {},
        }
        path = resource.path(namespace=namespace, name=name)
        await self._ask(Request("DELETE", path, body=_encode(options)))

    async def _ask(self, request: Request) -> bytes:
        return await self._transport.ask(request, self._patience, self._fence)


def _encode(body: Body) -> bytes:
    return msgspec.json.encode(body)
