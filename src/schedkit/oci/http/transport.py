"""Connections to servers that are not trusted: every wait ends by a deadline, nothing is decoded or followed.

A time limit on each read does not end a server that sends a byte a minute, so the deadline stands at the
socket: no read or write waits longer than what is left of its operation. Only the system's name servers have
a limit of their own, after which the operation's time may be over. Cookies, redirects and compressed
bodies, which general clients handle by themselves, do not exist here.
"""

from __future__ import annotations

import base64
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Final
from urllib.parse import SplitResult, urlsplit

import h11
import msgspec

from schedkit.oci.errors import Refused, RegistryError, Uncertified, Unreachable
from schedkit.oci.http.deadlines import capped
from schedkit.oci.http.exchange import Broken, Exchange, TooManyHeaders, Unwritable, question
from schedkit.oci.http.proxies import Proxies, parse_proxy
from schedkit.oci.http.tls import Authorities, has_unknown_issuer

CONNECT_S: Final = 10.0
SILENCE_S: Final = 30.0
_IDLE_S: Final = 30.0
_PORTS: Final = {"http": 80, "https": 443}
_MOST_ADDRESSES: Final = 8  # of one host
_PIECE: Final = 64 << 10

Resolve = Callable[[str, int], Sequence[str]]

# When the operation that is under way in this thread must have ended, on the monotonic clock.
_ends: ContextVar[float] = ContextVar("ends")


class Request(msgspec.Struct, frozen=True):
    """One request; `content` may be pieces, whose total length is then among the headers."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    content: bytes | Iterable[bytes] | None = None


class _CannotConnect(Exception):  # noqa: N818 - it becomes an error of ours
    """No connection came about; the cause says why."""


class Wire:
    """One connection, on which no wait is longer than what is left of the operation."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self.idle_since = 0.0

    def receive(self) -> bytes:
        """Some bytes, as they come; nothing at the end of the connection."""
        self._stream.settimeout(_left(SILENCE_S))
        return self._stream.recv(_PIECE)

    def send(self, data: bytes) -> None:
        """All of it, in pieces, each with the time that is left."""
        view = memoryview(data)
        while view:
            self._stream.settimeout(_left(SILENCE_S))
            view = view[self._stream.send(view) :]

    def secure(self, tls: ssl.SSLContext, name: str) -> None:
        """Speak TLS from here on, with a server of that name."""
        self._stream.settimeout(_left(CONNECT_S))
        try:
            self._stream = tls.wrap_socket(self._stream, server_hostname=_in_ascii(name))
        except TimeoutError:
            raise
        except OSError as error:
            raise _CannotConnect from error

    def is_usable(self) -> bool:
        """Whether a server that was silent since has neither said something nor left."""
        if time.monotonic() - self.idle_since > _IDLE_S:
            return False
        poll = select.poll()
        poll.register(self._stream, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._stream.close()


class Response:
    """An answer whose body may still be on its way; read it before the operation's deadline, or close it."""

    def __init__(
        self, url: str, exchange: Exchange, ends: float, end_exchange: Callable[[Exchange], None]
    ) -> None:
        head = exchange.head()
        self.url = url
        self.status = head.status
        self.headers = head.headers
        self._exchange, self._ends, self._end_exchange = exchange, ends, end_exchange
        self._is_open = True

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes, undecoded; `Unreachable` when it breaks off."""
        pieces = self._exchange.pieces()
        while True:
            with _deadline(self._ends), _translated(self.url):
                piece = next(pieces, None)
            if piece is None:
                self.close()
                return
            yield piece

    def close(self) -> None:
        """Give the rest of the body up; a connection whose answer was read to its end is used again."""
        if not self._is_open:
            return
        self._is_open = False
        self._end_exchange(self._exchange)


class Transport:
    """Connections that are kept open between requests; close it when done."""

    def __init__(
        self,
        *,
        tls: Authorities,
        proxies: Proxies,
        resolve: Resolve | None = None,
        connect_s: float = CONNECT_S,
    ) -> None:
        self._tls, self._connect_s = tls, connect_s
        self._proxies = proxies
        self._resolve = resolve or addresses_of
        self._idle: dict[tuple[str, str, int, str], list[Wire]] = {}

    def send(self, request: Request, *, ends: float) -> Response:
        """The answer, whatever its status, once its headers are there; `Unreachable` when there is none."""
        url = urlsplit(request.url)
        with _deadline(ends), _translated(request.url):
            target = _place(url)
            place = (*target, self._proxies.proxy_for(*target))
            asked = _question(request, url, via=place[-1])
            wire = self._taken(place) or self._opened(place)
            try:
                exchange = Exchange(asked, wire.receive)
                _send(wire, exchange, request.content)
                return Response(request.url, exchange, ends, partial(self._put_back, place, wire))
            except BaseException:
                wire.close()
                raise

    def close(self) -> None:
        """End all connections."""
        for wires in self._idle.values():
            while wires:
                wires.pop().close()

    def _taken(self, place: tuple[str, str, int, str]) -> Wire | None:
        """A connection from before that is still good."""
        waiting = self._idle.get(place, [])
        while waiting:
            wire = waiting.pop()
            if wire.is_usable():
                return wire
            wire.close()
        return None

    def _put_back(self, place: tuple[str, str, int, str], wire: Wire, exchange: Exchange) -> None:
        """Keep a connection on which everything was said; end any other."""
        if not exchange.may_be_followed:
            wire.close()
            return
        wire.idle_since = time.monotonic()
        self._idle.setdefault(place, []).append(wire)

    def _opened(self, place: tuple[str, str, int, str]) -> Wire:
        """A new connection; where an authority is not in the index, the whole store is asked."""
        try:
            return self._opened_once(place)
        except _CannotConnect as error:
            if not (has_unknown_issuer(error.__cause__) and self._tls.complete()):
                raise
        return self._opened_once(place)

    def _opened_once(self, place: tuple[str, str, int, str]) -> Wire:
        scheme, host, port, proxy = place
        wire = self._opened_to_proxy(proxy) if proxy else Wire(self._connected(host, port))
        try:
            if scheme == "https":
                if proxy:
                    _tunnel(wire, host, port, proxy)
                wire.secure(self._tls.context, host)
        except BaseException:
            wire.close()
            raise
        return wire

    def _opened_to_proxy(self, proxy: str) -> Wire:
        address = urlsplit(parse_proxy(proxy)[0])
        scheme, host, port = _place(address)
        wire = Wire(self._connected(host, port))
        if scheme == "https":
            wire.secure(self._tls.context, host)
        return wire

    def _connected(self, host: str, port: int) -> socket.socket:
        """One address after the other, each with its share of what is left: many of them wait no longer."""
        addresses = self._resolve(host, port)[:_MOST_ADDRESSES]
        # from now on: a slow name server takes of the operation's time, but not of that to connect
        ends = time.monotonic() + _left(self._connect_s)
        for number, address in enumerate(addresses, start=1):
            share_s = (ends - time.monotonic()) / (len(addresses) - number + 1)
            try:
                return _connect(address, port, share_s)
            except TimeoutError:
                if number == len(addresses):
                    raise
            except OSError as error:
                if number == len(addresses):
                    raise _CannotConnect from error
        raise AssertionError("the last address connects or raises")


def _connect(address: str, port: int, share_s: float) -> socket.socket:
    place = (_in_ascii(address), port)
    stream = socket.create_connection(place, timeout=_left(max(share_s, 0.001)))  # type: ignore[arg-type]  # bytes do
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def _place(url: SplitResult) -> tuple[str, str, int]:
    return url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme, 0)


def _question(request: Request, url: SplitResult, *, via: str) -> h11.Request:
    """The request's first lines; a proxy gets the whole address, unless it only has to pass bytes on."""
    authority = url.netloc.rpartition("@")[2]
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    headers = [("Host", authority), *request.headers.items()]
    if via and url.scheme == "http":
        target = f"http://{authority}{target}"
        headers += _proxy_login(via)
    return question(request.method, target, headers)


def _proxy_login(proxy: str) -> list[tuple[str, str]]:
    login = parse_proxy(proxy)[1]
    if login is None:
        return []
    pair = base64.b64encode(f"{login[0]}:{login[1]}".encode()).decode()
    return [("Proxy-Authorization", f"Basic {pair}")]


def _tunnel(wire: Wire, host: str, port: int, proxy: str) -> None:
    """Let the proxy pass bytes on to the host."""
    if urlsplit(parse_proxy(proxy)[0]).scheme == "https":
        raise RegistryError(
            "a proxy with an https:// address cannot be used for https: "
            "write the proxy's address with http://"
        )
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    exchange = Exchange(
        question("CONNECT", authority, [("Host", authority), *_proxy_login(proxy)]), wire.receive
    )
    _send(wire, exchange, None)
    status = exchange.head().status
    if not 200 <= status < 300 or exchange.has_leftovers:
        raise Broken(f"its proxy answered {status}")


def _send(wire: Wire, exchange: Exchange, content: bytes | Iterable[bytes] | None) -> None:
    """Head and body; a server that does not listen to the end may have answered, so that is read then."""
    pieces = exchange.request((content,) if isinstance(content, bytes) else content or ())
    wire.send(next(pieces))
    for piece in pieces:
        try:
            wire.send(piece)
        except TimeoutError:
            raise
        except OSError:
            return


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
    except TimeoutError as error:
        raise Unreachable(f"{host} was too slow: no answer in time") from error
    except _CannotConnect as error:
        raise _connect_failure(host, error.__cause__) from error
    except Unwritable as error:
        raise Refused(f"{host} gave an address that cannot be requested: {error}") from error
    except UnicodeError as error:  # a label that is empty or too long
        raise Refused(f"{host[:80]!r} cannot be the name of a host: {error}") from error
    except TooManyHeaders as error:
        raise Refused(f"{host} cannot be used: {error}") from error
    except (OSError, Broken) as error:
        raise Unreachable(f"{host} could not be reached, or its answer was interrupted: {error}") from error


def _connect_failure(host: str, cause: BaseException | None) -> RegistryError:
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = f"{host} has a certificate that cannot be trusted: {cause.verify_message}"
        return Uncertified(f"{reason}. If this is the right server, name its CA file with --registry-ca")
    if isinstance(cause, ssl.SSLError | ConnectionResetError):
        reason = f"{host} does not speak TLS: {cause}"
        return Unreachable(f"{reason}. If it is meant to work without TLS, name it with --insecure-registry")
    return Unreachable(f"{host} could not be reached: {cause}")


def addresses_of(host: str, port: int) -> Sequence[str]:
    """All addresses of the host, each once, in the order in which the system would try them."""
    try:
        found = socket.getaddrinfo(_in_ascii(host), port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _CannotConnect from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _in_ascii(host: str) -> str | bytes:
    """The host in bytes where that is possible: Python loads tables of Unicode for any host that is text."""
    is_plain = host.isascii() and all(0 < len(label) < 64 for label in host.split("."))
    return host.encode() if is_plain else host


def _left(timeout_s: float) -> float:
    left_s = _ends.get() - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the operation's time has run out")
    return min(left_s, timeout_s)
