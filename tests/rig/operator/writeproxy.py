"""Stands between one manager and the API server: counts its writes, and comes between when it is told to.

It lives in the running event loop, listens on loopback only, and speaks plain HTTP to the manager. To the
API server it is the user whose certificate it was given. Cluster-wide lists and watches are narrowed to one
namespace, so that many managers work side by side and none sees what is another's.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from rig.base import polling
from rig.base.errors import RigError
from rig.cluster import kubeclient
from rig.cluster.controlplane import ControlPlane

_CLUSTER_WIDE = re.compile(r"^(/api/v1|/apis/[^/]+/[^/]+)/(schedexts|daemonsets|pods|events)(?=\?|$)")
_RESOURCE = re.compile(r"^/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+)?/([a-z]+)")
_VERSION = re.compile(r"(?<=[?&]resourceVersion=)[^&]*")
_OF_THE_CONNECTION = frozenset({"host", "connection", "content-length", "transfer-encoding"})
_LEASES = "/leases"
_FIRST_VERSION = "1"  # older than anything that a server with a past remembers


class Moment(StrEnum):
    """When a writer dies."""

    BEFORE = "before the server sees it"
    AFTER = "before its answer arrives"


@dataclass(frozen=True)
class Doom:
    """At which write, of those that count, a manager dies."""

    number: int  # from 1
    moment: Moment
    counted: re.Pattern[str]


@dataclass
class WriteProxy:
    """One manager's way to the server."""

    server: str
    namespace: str
    session: aiohttp.ClientSession
    port: int = 0  # known once it listens
    # verb and path, since it was last armed; a lease that is renewed is a sign of life, and not counted
    writes: list[str] = field(default_factory=list)
    late_s: Mapping[str, float] = field(default_factory=dict)  # how late events of a resource arrive
    blind: bool = False  # whether nothing can be read
    forgetful: set[str] = field(default_factory=set)  # resources whose next watch asks for too old a version
    _doom: Doom | None = None  # None: everybody lives
    _kill: Callable[[], object] | None = None
    _dead: bool = False  # what a killed manager sent before it died is dropped
    _wrote_at: float = 0
    _watching: dict[asyncio.Transport, str] = field(default_factory=dict)  # what is watched there

    # What a test does

    def arm(self, doom: Doom | None = None, kill: Callable[[], object] | None = None) -> None:
        """Count from here on, and kill when it is time."""
        self.writes.clear()
        self._doom, self._kill, self._dead = doom, kill, False

    @property
    def quiet_s(self) -> float:
        """How long ago the last write was."""
        return time.monotonic() - self._wrote_at

    @property
    def watched(self) -> set[str]:
        """Resources that are being watched."""
        return set(self._watching.values())

    def cut(self) -> None:
        """End every watch without a word."""
        for transport in tuple(self._watching):
            transport.abort()

    # What the manager sees

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        reading = request.method == "GET"
        if self._dead or (reading and self.blind):
            return _abort(request)
        return await (self._read(request) if reading else self._write(request))

    async def _write(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        moments = self._moments(f"{request.method} {request.path}")
        if Moment.BEFORE in moments:
            return self._strike(request)
        async with self._forwarded(request, body) as answer:
            said = web.Response(status=answer.status, headers=_kept(answer.headers), body=await answer.read())
        return self._strike(request) if Moment.AFTER in moments else said

    def _moments(self, write: str) -> set[Moment]:
        """When the manager dies during that write: at one moment, or at none."""
        if _LEASES in write:
            return set()
        self.writes.append(write)
        self._wrote_at = time.monotonic()
        doom = self._doom
        if doom is None or not doom.counted.search(write):
            return set()
        number = sum(doom.counted.search(write) is not None for write in self.writes)
        return {doom.moment} if number == doom.number else set()

    def _strike(self, request: web.BaseRequest) -> web.Response:
        self._dead = True
        if self._kill is not None:
            self._kill()
        return _abort(request)

    async def _read(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self._forwarded(request, None) as answer:
            if "watch" in request.query:
                return await self._relay(request, answer)
            return web.Response(status=answer.status, headers=_kept(answer.headers), body=await answer.read())

    @asynccontextmanager
    async def _forwarded(
        self, request: web.BaseRequest, body: bytes | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = URL(self.server + self._narrowed(request), encoded=True)
        headers = _kept(request.headers)
        async with self.session.request(request.method, url, data=body, headers=headers) as answer:
            yield answer

    def _narrowed(self, request: web.BaseRequest) -> str:
        target = _CLUSTER_WIDE.sub(rf"\1/namespaces/{self.namespace}/\2", request.raw_path)
        resource = _resource(request)
        if "watch" in request.query and resource in self.forgetful:
            self.forgetful.discard(resource)
            target = _VERSION.sub(_FIRST_VERSION, target)
        return target

    async def _relay(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
        await response.prepare(request)
        transport = _transport(request)
        self._watching[transport] = _resource(request)
        try:
            with suppress(ConnectionResetError):  # the manager is gone, or was cut off
                async for chunk in self._held_back(answer.content, _resource(request)):
                    await response.write(chunk)
        finally:
            self._watching.pop(transport, None)
        return response

    async def _held_back(self, content: aiohttp.StreamReader, resource: str) -> AsyncIterator[bytes]:
        """The chunks of a watch, each as late as its resource is now."""
        arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def take_in() -> None:
            async for chunk in content.iter_any():
                arrived.put_nowait((time.monotonic() + self.late_s.get(resource, 0), chunk))
            arrived.put_nowait((0, b""))

        taking = asyncio.create_task(take_in())
        try:
            while (item := await arrived.get())[1]:
                await asyncio.sleep(max(0.0, item[0] - time.monotonic()))
                yield item[1]
        finally:
            taking.cancel()


def _resource(request: web.BaseRequest) -> str:
    found = _RESOURCE.match(request.path)
    return found[1] if found else ""


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}


def _transport(request: web.BaseRequest) -> asyncio.Transport:
    if request.transport is None:
        raise RigError("the manager is gone")
    return request.transport


def _abort(request: web.BaseRequest) -> web.Response:
    """Reset the connection: whoever waits for an answer gets none."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()  # reaches nobody


@asynccontextmanager
async def upstream(kubeconfig: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """Connections to the API server, for any number of proxies, as that kubeconfig's user; all end here."""
    made: list[socket.socket] = []

    def make_socket(address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        made.append(socket.socket(family=family, type=kind, proto=protocol))
        return made[-1]

    connector = aiohttp.TCPConnector(limit=0, ssl=kubeclient.tls_of(kubeconfig), socket_factory=make_socket)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        yield session
    await _end(made)


async def _end(sockets: Sequence[socket.socket]) -> None:
    """Cut short what is left of TLS connections: asyncio says farewell on them after they were given up."""
    for each in sockets:
        with suppress(OSError):  # most are closed already
            each.shutdown(socket.SHUT_RDWR)
    await polling.soon(lambda: all(each.fileno() < 0 for each in sockets), "every connection is closed")


@asynccontextmanager
async def running(
    cluster: ControlPlane, session: aiohttp.ClientSession, namespace: str
) -> AsyncIterator[WriteProxy]:
    """A proxy for the length of the block."""
    proxy = WriteProxy(cluster.server, namespace, session)
    server = web.Server(proxy.handle, handler_cancellation=True)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await server.shutdown(0)


def kubeconfig(cluster: ControlPlane, proxy: WriteProxy) -> Path:
    """For the manager behind that proxy: it needs no credentials, the proxy has them."""
    path = cluster.folder / f"proxy-{proxy.port}.kubeconfig"
    server, authority = f"http://127.0.0.1:{proxy.port}", cluster.layout.authority.ca_file
    return kubeclient.write_kubeconfig(path, server=server, ca_file=authority, user={})
