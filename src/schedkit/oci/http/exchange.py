"""One request in HTTP/1.1 and the answer to it, by h11; an answer that could be read in two ways is not read.

h11 is lenient in places: it reads lines that end in a bare line feed, headers that go on in the next line,
other versions, and an answer that says its length twice; such answers are refused here. It also takes
quadratic time to refuse some characters after many blanks, and no deadline ends an expression: a head is
looked through before h11 reads it, and lines between chunks are short. Nothing here knows sockets: bytes come
from a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import h11
import msgspec

LARGEST_HEAD: Final = 64 << 10
MOST_HEADERS: Final = 100
_LONGEST_LINE: Final = 1 << 10  # before a chunk, and all that follows the last one
_PIECE: Final = 256 << 10
_VERSIONS: Final = (b"1.0", b"1.1")
# half a line end, a line that goes on with the one before, and blanks that are no blanks
_AMBIGUOUS: Final = re.compile(rb"\r(?!\n)|(?<!\r)\n|\n[ \t]|[\0\v\f]")
_LONGEST_COMPLAINT: Final = 120


class Broken(Exception):  # noqa: N818 - what the answer is
    """An answer that is not HTTP/1.1, or that ends before its end."""


class TooManyHeaders(Broken):
    """An answer that nobody writes who means well."""


class Unwritable(ValueError):  # noqa: N818 - as Broken
    """A request that would not be read as one."""


class Head(msgspec.Struct, frozen=True):
    """What comes before the body of an answer; header names are in lower case, repeated ones are one list."""

    status: int
    headers: dict[str, str]


def question(method: str, target: str, headers: Iterable[tuple[str, str]]) -> h11.Request:
    """The head of a request; `Unwritable` if something in it would begin another line."""
    try:
        named = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return h11.Request(method=method, target=target, headers=named)
    except (h11.LocalProtocolError, UnicodeEncodeError) as error:
        raise Unwritable("it has characters that no request can have") from error


class Exchange:
    """A request on a connection, and the answer to it."""

    def __init__(self, asked: h11.Request, receive: Callable[[], bytes]) -> None:
        self._asked = asked
        self._waiting = _Waiting(receive)
        # a head is handed over as a whole: what h11 may have to wait for is a line between chunks
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_LINE)
        self._handed_over: bytearray | None = (
            None  # of chunks, what was not looked through yet; None: no chunks
        )

    def request(self, content: Iterable[bytes]) -> Iterator[bytes]:
        """The bytes to send: the head, then the content, whose length is among the headers."""
        yield self._written(self._asked)
        for piece in content:
            yield self._written(h11.Data(data=piece))
        yield self._written(h11.EndOfMessage())

    def head(self) -> Head:
        """The answer's head; those before it that only say to wait are passed over, while one may wait."""
        while isinstance(found := self._read_head(), h11.InformationalResponse):
            pass
        headers = _joined(found.headers)
        if "transfer-encoding" in headers:
            if "content-length" in headers:
                raise Broken("the answer says twice how long it is")
            self._handed_over = bytearray()
        self._event()  # an answer without a body ends here
        return Head(found.status_code, headers)

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes; `Broken` if the end is missing."""
        while self._http.their_state is h11.SEND_BODY:
            event = self._event()
            if event is h11.NEED_DATA:
                self._hand_over()
                continue
            data = bytes(event.data) if isinstance(event, h11.Data) else b""
            self._look_through(len(data))
            if data:
                yield data

    @property
    def has_leftovers(self) -> bool:
        """Whether something came that nobody asked for, or the end of the connection."""
        return not self._waiting.is_empty or self._http.trailing_data != (b"", False)

    @property
    def may_be_followed(self) -> bool:
        """Whether both sides have said all that they had to say, and the connection is there for another."""
        are_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return are_done and not self.has_leftovers

    def _hand_over(self) -> None:
        """Have h11 read some more; of chunks only a little, so that no line between them takes long."""
        received = self._waiting.some(_PIECE if self._handed_over is None else _LONGEST_LINE)
        self._http.receive_data(received)
        if self._handed_over is not None:
            self._handed_over += received

    def _look_through(self, size: int) -> None:
        """Refuse what is ambiguous between a chunk and its successor, of which so many bytes were read."""
        if self._handed_over is None:
            return
        read = len(self._handed_over) - len(self._http.trailing_data[0])
        _refuse_ambiguous(self._handed_over[: read - size])
        del self._handed_over[:read]

    def _written(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> bytes:
        try:
            return self._http.send(event) or b""
        except h11.LocalProtocolError as error:
            raise Unwritable(str(error)) from error

    def _read_head(self) -> h11.Response | h11.InformationalResponse:
        data = self._waiting.until(b"\r\n\r\n", LARGEST_HEAD)
        if (count := data.count(b"\r\n")) > MOST_HEADERS:
            raise TooManyHeaders(f"the answer has {count} headers; the limit is {MOST_HEADERS}")
        _refuse_ambiguous(data)
        self._http.receive_data(data + b"\r\n\r\n")
        event = self._event()
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            raise Broken("the answer does not begin with a status")
        if event.http_version not in _VERSIONS:
            raise Broken(f"the answer is in HTTP/{event.http_version.decode()}, which is not supported")
        return event

    def _event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise Broken(str(error)[:_LONGEST_COMPLAINT]) from error


class _Waiting:
    """Bytes that came, and were not read yet."""

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._bytes = bytearray()

    @property
    def is_empty(self) -> bool:
        return not self._bytes

    def until(self, end: bytes, limit: int) -> bytes:
        """What comes before these bytes, which are taken as well; `Broken` if they do not come."""
        searched = 0
        while (at := self._bytes.find(end, max(0, searched - len(end)))) < 0:
            searched = len(self._bytes)
            if searched > limit:
                raise Broken(f"the answer's head has more than {limit} bytes")
            received = self._receive()
            if not received:
                raise Broken("the connection was closed in the middle of an answer")
            self._bytes += received
        taken = bytes(self._bytes[:at])
        del self._bytes[: at + len(end)]
        return taken

    def some(self, most: int) -> bytes:
        """One byte or more, as they come; nothing at the end of the connection."""
        if not self._bytes:
            self._bytes += self._receive()
        taken = bytes(self._bytes[:most])
        del self._bytes[:most]
        return taken


def _refuse_ambiguous(lines: bytes | bytearray) -> None:
    """Let pass only lines that h11 reads in the one way in which everybody does, and in little time."""
    found = _AMBIGUOUS.search(lines)
    if found is not None:
        around = bytes(lines[max(0, found.start() - 20) : found.start() + 20])
        raise Broken(f"the answer's HTTP lines contain unsafe characters: {around!r}")


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return joined
