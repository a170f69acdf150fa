"""A request to Podman and its answer, in HTTP/1.1 by h11; answers are read piece by piece.

http.client would do it as well, and import TLS, mail parsing and three times the interpreter's own start-up
with it. Reading is bounded everywhere: the head, and a whole answer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import h11

from schedkit.runtimes.errors import HungUpError, NotAnsweringError, SilentError
from schedkit.runtimes.podman.request import Request

PIECE_BYTES = 1 << 16
_HEAD_LIMIT_BYTES = 1 << 16
_HEADER_LIMIT = 100
_ANSWER_LIMIT_BYTES = 16 << 20
_BEGINNING = b"HTTP/1."
_SWITCHED = 101
_HUNG_UP = "Podman closed the connection before it had answered"
_SILENT = "check that it still runs (`systemctl status podman`), then try again"


def converse(connection: socket.socket, request: Request) -> Answer:
    """Send the request; returns with the beginning of the answer."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_LIMIT_BYTES)
    for piece in _written(http, request):  # what the source of a body raises passes through
        if not _push(connection, piece):
            break
    return Answer(connection, http)


class Answer:
    """Status and headers are there; the rest is read on demand, and closed with the block."""

    def __init__(self, connection: socket.socket, http: h11.Connection) -> None:
        self._connection, self._http = connection, http
        http.receive_data(self._first_bytes())
        head = self._head()
        self.status = head.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self) -> bytes:
        """The whole answer; raise if it is unreasonably long."""
        whole = bytearray()
        for piece in self.pieces():
            whole += piece
            if len(whole) > _ANSWER_LIMIT_BYTES:
                raise _nonsense("more than 16 MiB")
        return bytes(whole)

    def pieces(self) -> Iterator[bytes]:
        """The answer's body as it comes."""
        while self._http.their_state is h11.SEND_BODY:
            event = self._event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)

    def raw(self) -> Iterator[bytes]:
        """Whatever comes until the other side closes: the answer became a plain stream."""
        piece = self._http.trailing_data[0] or self._received()
        while piece:
            yield piece
            piece = self._received()

    def feed(self, source: int) -> None:
        """Send what is read from that descriptor, and its end; goes on beside whoever reads the answer."""
        import threading  # noqa: PLC0415 - `status` goes without

        # nobody waits for it: a terminal may never say another word
        threading.Thread(target=_pump, args=(source, self._connection), daemon=True).start()

    def _first_bytes(self) -> bytes:
        """What tells an answer from silence, and from another protocol, whose server may wait for us."""
        with _answering(self._connection):
            try:
                first = self._connection.recv(PIECE_BYTES)
            except ConnectionResetError:  # closed with our request unread
                first = b""
        if not first:
            raise HungUpError(_HUNG_UP, _SILENT, acted=True)
        if first[: len(_BEGINNING)] != _BEGINNING[: len(first)]:
            raise _nonsense("something that is not HTTP")
        return first

    def _head(self) -> h11.Response | h11.InformationalResponse:
        """The answer's own, or that of a change to another protocol."""
        while isinstance(head := self._event(), h11.InformationalResponse) and head.status_code != _SWITCHED:
            pass
        if not isinstance(head, h11.Response | h11.InformationalResponse):
            raise _nonsense("something that is not HTTP")
        if len(head.headers) > _HEADER_LIMIT:
            raise _nonsense(f"more than {_HEADER_LIMIT} headers")
        return head

    def _event(self) -> object:
        """What the answer says next."""
        while (event := self._parsed()) is h11.NEED_DATA:
            self._http.receive_data(self._received())
        return event

    def _parsed(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            _, is_closed = self._http.trailing_data
            raise (_hung_up() if is_closed else _nonsense(f"invalid HTTP/1.1: {str(error)[:80]}")) from error

    def _received(self) -> bytes:
        with _answering(self._connection):
            return self._connection.recv(PIECE_BYTES)


def _written(http: h11.Connection, request: Request) -> Iterator[bytes]:
    """The bytes of the request: its head, and its body with a length or in chunks."""
    body = request.body
    pieces = [body] if isinstance(body, bytes) else body
    length = (
        ("Content-Length", f"{len(body)}") if isinstance(body, bytes) else ("Transfer-Encoding", "chunked")
    )
    headers = [("Host", "podman"), length, *(request.headers or {"Connection": "close"}).items()]
    yield http.send(h11.Request(method=request.method, target=request.target, headers=headers)) or b""
    for piece in pieces:
        yield http.send(h11.Data(data=piece)) or b""
    yield http.send(h11.EndOfMessage()) or b""


def _push(connection: socket.socket, data: bytes) -> bool:
    """False: the other side has heard enough, and its answer says why."""
    with _answering(connection):
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
    return True


def _pump(source: int, connection: socket.socket) -> None:
    with suppress(OSError):  # the program has ended, and what it would have read is nobody's
        while piece := os.read(source, PIECE_BYTES):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)


@contextmanager
def _answering(connection: socket.socket) -> Iterator[None]:
    """Say it in our words when the connection fails."""
    try:
        yield
    except TimeoutError as error:
        silence = f"Podman said nothing for {connection.gettimeout() or 0:.0f} s"
        raise SilentError(silence, _SILENT, acted=True) from error
    except OSError as error:
        raise _hung_up() from error


def _hung_up() -> NotAnsweringError:
    return NotAnsweringError(_HUNG_UP, _SILENT, acted=True)


def _nonsense(what: str) -> NotAnsweringError:
    hint = "check which program owns the socket, and name Podman's socket with --socket"
    return NotAnsweringError(f"the program at Podman's socket answered with {what}", hint, acted=True)
