"""A server that does what no registry should: each path of it misbehaves in a way of its own.

A behaviour is a function that is given a request and yields the bytes of the answer, head and all. What the
server was asked is kept, with headers, so that a test sees what reached it.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias

from rig.base import polling
from rig.base.certificates import KeyPair


@dataclass(frozen=True)
class Request:
    """What somebody asked; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    number: int  # how many requests came before it
    body: bytes = b""


Behaviour: TypeAlias = Callable[[Request], Iterable[bytes]]


class Server:
    """Answers on loopback until it is left, over TLS if it has a certificate."""

    def __init__(
        self, behaviours: Mapping[str, Behaviour] | None = None, pair: KeyPair | None = None
    ) -> None:
        self._behaviours = dict(behaviours or {})
        self._tls = _tls(pair) if pair else None
        self.requests: list[Request] = []
        self._open = 0
        self._lock = threading.Lock()
        self._server = _listener(self._serve)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}"

    def behave(self, target: str, behaviour: Behaviour) -> None:
        """Answer all targets that begin so in this way from now on; the longest such beginning decides."""
        self._behaviours[target] = behaviour

    def asked(self, target: str) -> list[Request]:
        return [request for request in self.requests if request.target.startswith(target)]

    def await_silence(self) -> None:
        """Returns when nobody is connected any more."""
        polling.until(lambda: self._open == 0, "all clients have gone", timeout_s=10)

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, connection: socket.socket) -> None:
        """One request per connection; who hangs up early is let go."""
        with self._lock:
            self._open += 1
        try:
            with contextlib.suppress(OSError), self._secured(connection) as secured:
                self._answer(secured)
        finally:
            with self._lock:
                self._open -= 1

    def _secured(self, connection: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(connection, server_side=True) if self._tls else connection

    def _answer(self, connection: socket.socket) -> None:
        request = self._read_request(connection)
        if request is None:
            return
        self.requests.append(request)
        for piece in self._behaviour(request.target)(request):
            connection.sendall(piece)

    def _behaviour(self, target: str) -> Behaviour:
        fitting = [prefix for prefix in self._behaviours if target.startswith(prefix)]
        return self._behaviours[max(fitting, key=len)] if fitting else lambda _: [answer(404)]

    def _read_request(self, connection: socket.socket) -> Request | None:
        """None for what is no HTTP, such as an attempt to speak TLS."""
        file = connection.makefile("rb")
        words = file.readline(65536).decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            connection.sendall(answer(400))
            return None
        headers = {}
        while line := file.readline(65536).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = file.read(int(headers.get("content-length", "0")))
        return Request(words[0], words[1], headers, len(self.requests), body)


def _tls(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def _listener(serve: Callable[[socket.socket], None]) -> socketserver.ThreadingTCPServer:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            serve(self.request)

    class Listener(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

    return Listener(("127.0.0.1", 0), Handler)


def head(status: int, headers: Mapping[str, str] | None = None) -> bytes:
    """An answer's beginning; the connection ends with the answer."""
    lines = [f"HTTP/1.1 {status} As Scripted", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole and honest answer; `Content_Type` is written for Content-Type."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return head(status, {"Content-Length": str(len(body)), **named}) + body


def always(*pieces: bytes) -> Behaviour:
    """The same answer to everyone."""
    return lambda _: pieces


def endless(piece: bytes = bytes(65536), **headers: str) -> Behaviour:
    """A body without an announced length that never ends."""

    def behave(_: Request) -> Iterator[bytes]:
        yield head(200, {name.replace("_", "-"): value for name, value in headers.items()})
        while True:
            yield piece

    return behave


def cut_off(whole: bytes) -> Behaviour:
    """An honest beginning of that body, and the end of the connection half-way."""
    announced = head(200, {"Content-Length": str(len(whole))})
    return always(announced, whole[: len(whole) // 2])


def dripping(whole: bytes, *, every_s: float = 0.05) -> Behaviour:
    """One byte at a time, each soon enough that no wait for the next one seems long."""

    def behave(_: Request) -> Iterator[bytes]:
        for place in range(len(whole)):
            yield whole[place : place + 1]
            time.sleep(every_s)

    return behave


def silent(request: Request) -> Iterator[bytes]:
    """Takes the question and says nothing, for as long as any test lasts."""
    time.sleep(60)
    yield answer(200)


def redirect(to: str, status: int = 307) -> Behaviour:
    return always(answer(status, Location=to))


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Another behaviour for each request; the last one stays."""
    remaining = list(behaviours)

    def behave(request: Request) -> Iterable[bytes]:
        return (remaining.pop(0) if len(remaining) > 1 else remaining[0])(request)

    return behave
