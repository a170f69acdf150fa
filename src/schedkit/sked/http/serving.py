"""Small HTTP servers: a table of paths, each with a function that answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import TypeAlias

from aiohttp import web

from schedkit.kube.errors import ConfigError
from schedkit.sked.settings import Address, variable_of

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.Response]]
_READING = frozenset({"GET", "HEAD"})
_SHUTDOWN_S = 1  # nobody waits for a probe that came too late
# strangers may connect: what they hold open must never cost the manager its memory
_CONNECTIONS = 64
_HANDSHAKE_S = 5.0
_IDLE_S = 15.0


class _Server(web.Server):
    """A server that keeps few connections: the oldest gives way to a new one, so that nobody is shut out."""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Let it in."""
        super().connection_made(handler, transport)
        if len(held := self.connections) > _CONNECTIONS and (oldest := held[0].transport) is not None:
            oldest.abort()


@asynccontextmanager
async def listening(
    address: Address, routes: Mapping[str, Handler], tls: SSLContext | None = None, *, flag: str
) -> AsyncIterator[None]:
    """Answer these paths for the length of the block, on the address that this flag gave."""

    async def answer(request: web.BaseRequest) -> web.Response:
        handler = routes.get(request.path.rstrip("/"))
        if handler is None:
            return plain(404, f"this path does not exist: this server has only {' and '.join(routes)}")
        if request.method not in _READING:
            return plain(405, "only GET and HEAD are allowed")
        return await handler(request)

    server = _Server(answer, access_log=None, keepalive_timeout=_IDLE_S)
    runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_S)
    await runner.setup()
    try:
        async with await _bound(server, address, tls, flag):
            yield
    finally:
        await runner.cleanup()


async def _bound(server: _Server, address: Address, tls: SSLContext | None, flag: str) -> asyncio.Server:
    """Not by web.TCPSite, which lets a stranger take a minute for a handshake."""
    limit_s = _HANDSHAKE_S if tls else None
    try:
        return await asyncio.get_running_loop().create_server(
            server, address.host, address.port, ssl=tls, ssl_handshake_timeout=limit_s
        )
    except OSError as error:
        remedy = f"change --{flag} or {variable_of(flag)}; 0 turns it off"
        raise ConfigError(f"cannot listen on {address}: {error.strerror}; {remedy}") from error


def plain(status: int, text: str) -> web.Response:
    """A line for a person."""
    return web.Response(status=status, text=f"{text}\n")
