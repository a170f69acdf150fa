"""The little HTTP/1.1 that Podman's socket needs: one request per connection, answers read piece by piece.

http.client would do it as well, and import TLS, mail parsing and three times the interpreter's own start-up
with it. Reading is bounded everywhere: a line, a header, a whole answer.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple, Self

from schedkit.runtimes import sockets
from schedkit.runtimes.errors import HungUpError, NotAnsweringError, SilentError

PIECE_BYTES = 1 << 16
_LINE_LIMIT_BYTES = 1 << 16
_HEADER_LIMIT = 100
_ANSWER_LIMIT_BYTES = 16 << 20
_HUNG_UP = "Podman hung up before it had answered"
_SILENT = "see whether it still runs (`systemctl status podman`), then try again"


class Request(NamedTuple):
    """One request; a body that is no bytes is streamed."""

    method: str
    target: str
    body: bytes | Iterable[bytes] = b""
    headers: Mapping[str, str] | None = None
    timeout_s: float | None = 60  # between two pieces of the answer; None: wait for ever


class Answer:
    """Status and headers are there; the rest is read on demand, and closed with the block."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file: BufferedReader = connection.makefile("rb")
        try:
            self.status = self._read_status()
            self.headers = dict(self._read_headers())
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._connection.close()

    def read(self) -> bytes:
        """The whole answer; raise if it is unreasonably long."""
        whole = bytearray()
        for piece in self.pieces():
            whole += piece
            if len(whole) > _ANSWER_LIMIT_BYTES:
                raise _nonsense("an answer of more than 16 MiB")
        return bytes(whole)

    def pieces(self) -> Iterator[bytes]:
        """The answer's body as it comes."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks()
        return self._exactly(_number(self.headers.get("content-length", "0"), 10))

    def raw(self) -> Iterator[bytes]:
        """Whatever comes until the other side closes: the answer became a plain stream."""
        while piece := self._some(PIECE_BYTES):
            yield piece

    def feed(self, source: int) -> None:
        """Send what is read from that descriptor, and its end; goes on beside whoever reads the answer."""
        import threading  # noqa: PLC0415 - `status` goes without

        # nobody waits for it: a terminal may never say another word
        threading.Thread(target=_pump, args=(source, self._connection), daemon=True).start()

    def _chunks(self) -> Iterator[bytes]:
        while size := _number(self._line().partition(b";")[0].decode("latin-1"), 16):
            yield from self._exactly(size)
            self._line()
        while self._line():  # trailers: nothing of interest
            pass

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self._some(min(size, PIECE_BYTES))
            if not piece:
                raise _hung_up()
            size -= len(piece)
            yield piece

    def _read_status(self) -> int:
        if not self._has_begun():
            raise HungUpError(_HUNG_UP, _SILENT, acted=True)
        words = self._line().split(maxsplit=2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise _nonsense("no HTTP")
        return int(words[1])

    def _read_headers(self) -> Iterator[tuple[str, str]]:
        for _ in range(_HEADER_LIMIT):
            line = self._line()
            if not line:
                return
            name, _, value = line.decode("latin-1").partition(":")
            yield name.strip().lower(), value.strip()
        raise _nonsense(f"more than {_HEADER_LIMIT} headers")

    def _has_begun(self) -> bool:
        with _answering(self._connection):
            try:
                return bool(self._file.peek(1))
            except ConnectionResetError:  # closed with our request unread
                return False

    def _line(self) -> bytes:
        with _answering(self._connection):
            line = self._file.readline(_LINE_LIMIT_BYTES)
        if not line.endswith(b"\n"):
            raise _nonsense("a line without an end") if len(line) == _LINE_LIMIT_BYTES else _hung_up()
        return line.rstrip(b"\r\n")

    def _some(self, most: int) -> bytes:
        with _answering(self._connection):
            return self._file.read1(most)


class Server:
    """The HTTP server behind a unix socket; every way in which it fails is a `NotAnsweringError`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ask(self, request: Request) -> Answer:
        """Send the request; returns with the beginning of the answer.

        A question that changes nothing is put once more to a service that hung up without a word: one that
        systemd starts on demand ends after some idle seconds, and may do so just when it is called.
        """
        try:
            return self._ask(request)
        except HungUpError:
            if request.method != "GET":
                raise
            return self._ask(request)

    def _ask(self, request: Request) -> Answer:
        connection = sockets.connect(self.path, "Podman")
        connection.settimeout(request.timeout_s)
        try:
            _send(connection, request)
            return Answer(connection)
        except BaseException:
            connection.close()
            raise


def _send(connection: socket.socket, request: Request) -> None:
    body = request.body
    length = f"Content-Length: {len(body)}" if isinstance(body, bytes) else "Transfer-Encoding: chunked"
    lines = [f"{request.method} {request.target} HTTP/1.1", "Host: podman", length]
    lines += [f"{name}: {value}" for name, value in (request.headers or {"Connection": "close"}).items()]
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    rest = [body] if isinstance(body, bytes) else _chunked(body)
    for piece in itertools.chain([head], rest):  # what the source of a body raises passes through
        if not _push(connection, piece):
            return


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


def _number(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise _nonsense(f"the length {text[:40]!r}") from None


def _chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        if piece:
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def _hung_up() -> NotAnsweringError:
    return NotAnsweringError(_HUNG_UP, _SILENT, acted=True)


def _nonsense(what: str) -> NotAnsweringError:
    hint = "see which program has the socket, and name Podman's with --socket"
    return NotAnsweringError(f"what listens at Podman's socket answered with {what}", hint, acted=True)
