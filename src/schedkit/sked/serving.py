"""Small HTTP servers: a table of paths, each with a function that answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import TypeAlias

from aiohttp import web

from schedkit.sked.settings import Address

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.Response]]
_READING = frozenset({"GET", "HEAD"})
_SHUTDOWN_S = 1  # nobody waits for a probe that came too late


@asynccontextmanager
async def listening(
    address: Address, routes: Mapping[str, Handler], tls: SSLContext | None = None
) -> AsyncIterator[None]:
    """Answer these paths for the length of the block."""

    async def answer(request: web.BaseRequest) -> web.Response:
        handler = routes.get(request.path.rstrip("/"))
        if handler is None:
            return plain(404, f"nothing is here: there is {' and '.join(routes)}")
        if request.method not in _READING:
            return plain(405, "this can only be read")
        return await handler(request)

    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=_SHUTDOWN_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()


def plain(status: int, text: str) -> web.Response:
    """A line for a person."""
    return web.Response(status=status, text=f"{text}\n")
