"""HTTP/1.1 for servers that are not trusted: every wait ends by a deadline, nothing is decoded or followed.

A time limit on each read does not end a server that sends a byte a minute, so the deadline stands at the
socket: no read or write waits longer than what is left of its operation. Cookies, redirects and compressed
bodies, which general clients handle by themselves, do not exist here.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpcore2
import msgspec

from schedkit.oci.deadlines import capped
from schedkit.oci.errors import Refused, RegistryError, Unreachable
from schedkit.oci.proxies import Proxies, parse_proxy

CONNECT_S = 10.0
SILENCE_S = 30.0
_CONNECTIONS = 8
_IDLE_S = 30.0
_MOST_HEADERS = 100
_MOST_ADDRESSES = 8  # of one host

Resolve = Callable[[str, int], Sequence[str]]

# When the operation that is under way in this thread must have ended, on the monotonic clock.
_ends: ContextVar[float] = ContextVar("ends")


class Request(msgspec.Struct, frozen=True):
    """One request; `content` may be pieces, whose total length is then among the headers."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    content: bytes | Iterable[bytes] | None = None


class Response:
    """An answer whose body may still be on its way; read it before the operation's deadline, or close it."""

    def __init__(self, request: Request, raw: httpcore2.Response, ends: float) -> None:
        self._raw = raw
        self._ends = ends
        self.url = request.url
        self.status = raw.status
        self.headers = _read_headers(raw.headers)

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes, undecoded; `Unreachable` when it breaks off."""
        pieces = iter(self._raw.iter_stream())
        while True:
            with _deadline(self._ends), _translated(self.url):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def close(self) -> None:
        """Give the rest of the body up."""
        self._raw.close()


class Transport:
    """Connections that are kept open between requests; close it when done."""

    def __init__(self, *, tls: ssl.SSLContext, proxies: Proxies, resolve: Resolve | None = None) -> None:
        self._tls = tls
        self._proxies = proxies
        self._resolve = resolve or addresses_of
        self._pools: dict[str, httpcore2.ConnectionPool] = {}

    def send(self, request: Request, *, ends: float) -> Response:
        """The answer, whatever its status, once its headers are there; `Unreachable` when there is none."""
        url = urlsplit(request.url)
        with _deadline(ends), _translated(request.url):
            raw = self._pool(url).handle_request(_raw_request(request, url))
            try:
                return Response(request, raw, ends)
            except BaseException:
                raw.close()
                raise

    def close(self) -> None:
        """End all connections."""
        for pool in self._pools.values():
            pool.close()

    def _pool(self, url: SplitResult) -> httpcore2.ConnectionPool:
        proxy = self._proxies.proxy_for(url.scheme, url.hostname or "")
        if proxy not in self._pools:
            self._pools[proxy] = httpcore2.ConnectionPool(
                ssl_context=self._tls,
                proxy=_raw_proxy(proxy),
                max_connections=_CONNECTIONS,
                max_keepalive_connections=_CONNECTIONS,
                keepalive_expiry=_IDLE_S,
                network_backend=_Backend(self._resolve),
            )
        return self._pools[proxy]


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Trust in the system's authorities, and in those of the file."""
    context = ssl.create_default_context()
    try:
        if ca_file is not None:
            context.load_verify_locations(ca_file)
    except OSError as error:  # as ssl's own errors are, too
        raise RegistryError(f"{ca_file} cannot be read as certificates of authorities: {error}") from error
    return context


def _raw_proxy(url: str) -> httpcore2.Proxy | None:
    if not url:
        return None
    address, login = parse_proxy(url)
    return httpcore2.Proxy(address, auth=login)


def _raw_request(request: Request, url: SplitResult) -> httpcore2.Request:
    host = url.hostname or ""
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    raw_url = httpcore2.URL(
        scheme=url.scheme.encode(), host=host.encode(), port=url.port, target=target.encode()
    )
    timeouts = {"connect": CONNECT_S, "read": SILENCE_S, "write": SILENCE_S, "pool": CONNECT_S}
    headers = [(b"Host", url.netloc.rpartition("@")[2].encode())]
    headers += [(name.encode(), value.encode()) for name, value in request.headers.items()]
    return httpcore2.Request(
        request.method, raw_url, headers=headers, content=request.content, extensions={"timeout": timeouts}
    )


def _read_headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by lower-case name, repeated ones as one list; their number is limited."""
    if len(raw) > _MOST_HEADERS:
        raise Refused(f"the answer has {len(raw)} headers; {_MOST_HEADERS} is the most")
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


@contextmanager
def _deadline(ends: float) -> Iterator[None]:
    """Let nothing in this block wait past the deadline; a body that is sent may have an earlier one."""
    token = _ends.set(capped(ends))
    try:
        yield
    finally:
        _ends.reset(token)


@contextmanager
def _translated(url: str) -> Iterator[None]:
    host = urlsplit(url).netloc.rpartition("@")[2]
    try:
        yield
    except httpcore2.TimeoutException as error:
        raise Unreachable(f"{host} was too slow: no answer in time") from error
    except httpcore2.ConnectError as error:
        raise _connect_failure(host, error) from error
    except httpcore2.LocalProtocolError as error:
        raise Refused(f"{host} gave an address that no request can be made of: {error}") from error
    except UnicodeError as error:  # a label that is empty or too long
        raise Refused(f"{host[:80]!r} cannot be the name of a host: {error}") from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError) as error:
        raise Unreachable(f"{host} could not be reached, or broke off: {error}") from error


def _connect_failure(host: str, error: httpcore2.ConnectError) -> Refused | Unreachable:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = f"{host} has a certificate that cannot be trusted: {cause.verify_message}"
        return Refused(f"{reason}. If it is the right one, name its authority's file")
    if isinstance(cause, ssl.SSLError | ConnectionResetError):
        return Unreachable(f"{host} does not speak TLS: {error}. If it should not, list it as insecure")
    return Unreachable(f"{host} could not be reached: {error}")


class _Stream(httpcore2.NetworkStream):
    """A connection on which no wait is longer than what is left of the operation."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout)))

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401  # the library's own signature
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.SyncBackend):
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """One address after the other, each with its share of what is left: many of them wait no longer."""
        ends = time.monotonic() + _left(timeout)
        addresses = self._resolve(host, port)[:_MOST_ADDRESSES]
        for number, address in enumerate(addresses):
            share_s = (ends - time.monotonic()) / (len(addresses) - number)
            try:
                inner = super().connect_tcp(address, port, _left(share_s), local_address, socket_options)
                return _Stream(inner)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if number == len(addresses) - 1:
                    raise
        raise AssertionError("the last address connects or raises")


def addresses_of(host: str, port: int) -> Sequence[str]:
    """All addresses of the host, each once, in the order in which the system would try them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError(str(error)) from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _left(timeout: float | None) -> float:
    left_s = _ends.get() - time.monotonic()
    if left_s <= 0:
        raise httpcore2.ReadTimeout("the operation's time is over")
    return min(left_s, timeout or left_s)
