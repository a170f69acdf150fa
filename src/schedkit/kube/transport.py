"""Requests over HTTP/1.1: connections kept open, deadlines, retries, and a fence before each send.

Watches have connections of their own, so that a crowd of them never keeps a request waiting.
"""

from __future__ import annotations

import asyncio
import socket
import time
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import aiohttp

from schedkit.kube import errors
from schedkit.kube.access.config import Connection, without_userinfo
from schedkit.kube.backoff import Patience, delay_before_retry, roll
from schedkit.kube.errors import UnavailableError
from schedkit.kube.fence import Fence, FencedBody, no_fence

# Told about every answer: method, path, code (0: there was none), seconds.
Observer: TypeAlias = Callable[[str, str, int, float], None]

_REQUESTS_AT_ONCE = 64
_DEAD_AFTER_S = 30  # unanswered keep-alives or unacknowledged data end a connection
_CONNECT_S = 10
_CLOSE_S = 1
# a merge may be repeated; a JSON patch names the version it is for
_REPEATABLE = frozenset({"GET", "PUT", "DELETE", "PATCH"})


@dataclass(frozen=True)
class Request:
    """One thing to ask of the server."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class _Deadline:
    """When a request must be over, with all that is done to send it."""

    at: float  # by the monotonic clock
    attempt_s: float  # what one exchange may take of it

    @property
    def left_s(self) -> float:
        return self.at - time.monotonic()

    def limit_s(self, fence: Fence) -> float:
        """Seconds that an exchange may take from now on; raise when there are none, or the fence says no."""
        limit_s = min(self.attempt_s, fence(), self.left_s)
        if limit_s <= 0:  # which aiohttp takes for no limit at all
            raise UnavailableError("the request was not sent: its time had already run out", acted=False)
        return limit_s


class Transport:
    """The connections to one API server; close it when done."""

    def __init__(self, connection: Connection, *, user_agent: str, observe: Observer | None = None) -> None:
        self._connection = connection
        self._observe = observe or (lambda *_: None)
        headers = {"User-Agent": user_agent, "Accept": "application/json", "Accept-Encoding": "identity"}
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._requests = self._session(headers, limit=_REQUESTS_AT_ONCE)
        self._watches = self._session(headers, limit=0)

    async def close(self) -> None:
        """End all connections; none is left when this returns."""
        await self._requests.close()
        await self._watches.close()
        await self._end_farewells()

    async def _end_farewells(self) -> None:
        """Cut short what asyncio still has to say on TLS connections that were given up: up to 30 s each."""
        for each in self._sockets:
            with suppress(OSError):  # most are closed already
                each.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                while any(each.fileno() >= 0 for each in self._sockets):  # noqa: ASYNC110  # nobody tells
                    await asyncio.sleep(0)

    def _session(self, headers: Mapping[str, str], *, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, keepalive_timeout=60, socket_factory=self._socket)
        return aiohttp.ClientSession(
            headers=headers, connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = _lively_socket(address)
        self._sockets.add(made)
        return made

    async def ask(self, request: Request, patience: Patience, fence: Fence) -> bytes:
        """The server's answer; raise what it stands for, after retries, when it is none."""
        deadline = _Deadline(time.monotonic() + patience.total_s, patience.attempt_s)
        repeatable = request.method in _REPEATABLE
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._authenticated(request, deadline, fence)
            except UnavailableError as error:
                left_s = min(deadline.left_s, fence())
                delay_s = delay_before_retry(
                    error, patience, attempt=attempt, repeatable=repeatable, left_s=left_s, chance=roll()
                )
                if delay_s is None:
                    raise
                await asyncio.sleep(delay_s)
                if deadline.left_s <= 0:  # the pause was longer than asked for: the process was frozen
                    raise

    async def _authenticated(self, request: Request, deadline: _Deadline, fence: Fence) -> bytes:
        """One exchange; a second one if the token was refused and there may be a newer."""
        try:
            return await self._exchange(request, deadline, fence)
        except errors.ForbiddenError as error:
            if error.code != 401 or not self._connection.credentials.refused():
                raise
        return await self._exchange(request, deadline, fence)

    async def _exchange(self, request: Request, deadline: _Deadline, fence: Fence) -> bytes:
        headers = await self._authorization(deadline.left_s)
        limit_s = deadline.limit_s(fence)  # what the token took is gone
        if request.method != "GET":
            # the server then gives up when we do, and does not act on what nobody waits for
            limit = {"timeout": f"{max(int(limit_s * 1000), 1)}ms"}
            request = replace(request, query={**request.query, **limit})
        async with self._response(self._requests, request, headers, fence, total_s=limit_s) as response:
            return await response.read()

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_s: float) -> AsyncIterator[aiohttp.StreamReader]:
        """An answer that never has to end, but may not be silent for longer than that."""
        async with AsyncExitStack() as stack:
            try:
                response = await self._open(stack, request, silence_s)
            except errors.ForbiddenError as error:
                if error.code != 401 or not self._connection.credentials.refused():
                    raise
                response = await self._open(stack, request, silence_s)
            yield response.content

    async def _open(
        self, stack: AsyncExitStack, request: Request, silence_s: float
    ) -> aiohttp.ClientResponse:
        headers = await self._authorization(silence_s)
        opened = self._response(self._watches, request, headers, no_fence, silence_s=silence_s)
        return await stack.enter_async_context(opened)

    @asynccontextmanager
    async def _response(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        headers: Mapping[str, str],
        fence: Fence,
        *,
        total_s: float | None = None,
        silence_s: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good answer, whose body may still be on its way; everything else raises one of our errors."""
        body = None if request.body is None else FencedBody(request.body, request.content_type, fence)
        timeout = aiohttp.ClientTimeout(total=total_s, connect=_CONNECT_S, sock_read=silence_s)
        started, code = time.monotonic(), 0
        try:
            async with session.request(
                request.method,
                self._connection.server + request.path,
                params=request.query,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                ssl=self._connection.tls or True,
                server_hostname=self._connection.server_name,
                proxy=self._connection.proxy,
            ) as response:
                code = response.status
                await _raise_for(response)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if body is not None and body.refusal is not None:
                raise body.refusal from error
            raise _unavailable(error, request, self._connection.address) from error
        finally:
            self._observe(request.method, request.path, code, time.monotonic() - started)

    async def _authorization(self, limit_s: float) -> dict[str, str]:
        try:
            async with asyncio.timeout(limit_s):
                token = await self._connection.credentials.token()
        except TimeoutError as error:
            words = (
                f"no token for {self._connection.address} came in time: "
                "check whether the kubeconfig's credential program hangs"
            )
            raise UnavailableError(words, acted=False) from error
        return {"Authorization": f"Bearer {token}"} if token else {}


async def _raise_for(response: aiohttp.ClientResponse) -> None:
    if response.status < 300:
        return
    status = errors.read_status(await response.read())
    raise errors.failure(response.status, status, retry_after=response.headers.get("Retry-After"))


def _unavailable(error: Exception, request: Request, address: str) -> UnavailableError:
    """What kept the answer away; a request that found no connection has surely changed nothing."""
    acted = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return UnavailableError(
        f"{request.method} {request.path} on {address} failed: {_why(error)}", acted=acted
    )


def _why(error: Exception) -> str:
    """What aiohttp says, without the password that may be in an address it quotes."""
    match error:
        case aiohttp.ClientResponseError():
            return f"{error.status} {error.message}"
        case aiohttp.InvalidURL():
            return f"the address {without_userinfo(str(error.url))} is wrong: write it as https://host:port"
    return str(error) or "it did not answer in time"


def _lively_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that finds out when the other side is gone without a word."""
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _DEAD_AFTER_S // 2)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _DEAD_AFTER_S // 6)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER_S * 1000)
    return made
