"""HTTP/1.1 as a client reads and writes it (RFC 9112), strictly: what could be read in two ways is not read.

Nothing here knows sockets: bytes come from a function, and go to one. What is not HTTP is `Broken`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

LARGEST_HEAD: Final = 64 << 10
MOST_HEADERS: Final = 100
_LONGEST_LINE: Final = 4 << 10
_PIECE: Final = 256 << 10
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n\0]*)?")
_NAME: Final = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
# the blanks around the value are its own: an expression that leaves them out has too many ways to do so
_HEADER: Final = re.compile(rb"([-!#$%&'*+.^_`|~0-9A-Za-z]+):([^\r\n\0]*)")
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;[^\r\n\0]*)?")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_UNWRITABLE: Final = re.compile(r"[\0\r\n]")


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
    is_lasting: bool
    """Whether the connection may be used again once the body was read."""


class Reader:
    """A connection's bytes, as heads, lines and pieces."""

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._waiting = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether nothing came that nobody asked for."""
        return not self._waiting

    def until(self, end: bytes, limit: int) -> bytes:
        """What comes before these bytes, which are taken as well; `Broken` if they do not come."""
        searched = 0
        while (at := self._waiting.find(end, max(0, searched - len(end)))) < 0:
            searched = len(self._waiting)
            if searched > limit:
                raise Broken(f"a part of the answer's head has more than {limit} bytes")
            self._fill()
        taken = bytes(self._waiting[:at])
        del self._waiting[: at + len(end)]
        return taken

    def some(self, most: int) -> bytes:
        """One byte or more, as they come; nothing at the end of the connection."""
        if not self._waiting:
            self._waiting += self._receive()
        taken = bytes(self._waiting[:most])
        del self._waiting[:most]
        return taken

    def _fill(self) -> None:
        received = self._receive()
        if not received:
            raise Broken("the connection was closed in the middle of an answer")
        self._waiting += received


def written(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a request; `Unwritable` if something in it would begin another line."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    names_are_names = all(_NAME.fullmatch(name) for name, _ in headers)
    if not names_are_names or any(map(_UNWRITABLE.search, lines)) or not target.isascii() or " " in target:
        raise Unwritable("it has characters that no request can have")
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def read_head(reader: Reader) -> Head:
    """The answer's head; those before it that only say to wait are left out, for as long as one may wait."""
    while (head := _parse_head(reader.until(b"\r\n\r\n", LARGEST_HEAD))).status < 200:
        if head.status == 101:
            raise Broken("the answer changes to another protocol")
    return head


def _parse_head(data: bytes) -> Head:
    first, *lines = data.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise Broken(f"the answer begins with {first[:40]!r}, which is not HTTP/1.1")
    headers = _parse_headers(lines)
    words = {word.strip() for word in headers.get("connection", "").lower().split(",")}
    is_lasting = status[1] == b"1" and "close" not in words
    return Head(int(status[2]), headers, is_lasting)


def _parse_headers(lines: list[bytes]) -> dict[str, str]:
    if len(lines) > MOST_HEADERS:
        raise TooManyHeaders(f"the answer has {len(lines)} headers; {MOST_HEADERS} is the most")
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise Broken(f"the answer has {line[:40]!r} among its headers")
        name, value = found[1].decode("latin-1").lower(), found[2].strip(b" \t").decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


class Body:
    """The body of an answer, in pieces; `is_whole` once all of it was read."""

    def __init__(self, reader: Reader, head: Head, *, method: str) -> None:
        self._reader = reader
        self._length = _length(head, method)  # None: in chunks, or until the connection ends
        self._is_chunked = self._length is None and "transfer-encoding" in head.headers
        self.is_whole = self._length == 0
        self.is_lasting = head.is_lasting and (self._length is not None or self._is_chunked)

    def pieces(self) -> Iterator[bytes]:
        """As they come; `Broken` if the end is missing."""
        if self._is_chunked:
            yield from self._chunks()
        elif self._length is not None:
            yield from self._exactly(self._length)
        else:
            while piece := self._reader.some(_PIECE):
                yield piece
        self.is_whole = True

    def _exactly(self, length: int) -> Iterator[bytes]:
        while length:
            piece = self._reader.some(min(length, _PIECE))
            if not piece:
                raise Broken(f"the connection was closed {length} bytes before the end of the answer")
            length -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            yield from self._exactly(size)
            if self._reader.until(b"\r\n", 2):
                raise Broken("a chunk of the answer is longer than it says")
        while self._reader.until(b"\r\n", _LONGEST_LINE):
            pass  # what follows the last chunk says nothing that anybody asked for

    def _chunk_size(self) -> int:
        found = _CHUNK.fullmatch(self._reader.until(b"\r\n", _LONGEST_LINE))
        if found is None:
            raise Broken("a chunk of the answer does not say how long it is")
        return int(found[1], 16)


def _length(head: Head, method: str) -> int | None:
    """How many bytes the body has; None: its end is said otherwise (RFC 9112, section 6.3)."""
    if method == "HEAD" or head.status in {204, 304}:
        return 0
    announced, encoding = head.headers.get("content-length"), head.headers.get("transfer-encoding")
    if encoding is not None:
        if announced is not None or encoding.strip().lower() != "chunked":
            raise Broken(f"the answer is encoded as {encoding[:40]!r}, or says twice how long it is")
        return None
    if announced is None:
        return None
    lengths = {word.strip() for word in announced.split(",")}  # some proxies say the same twice
    length = lengths.pop()
    if lengths or not _LENGTH.fullmatch(length):
        raise Broken(f"the answer says that it has {announced[:40]!r} bytes")
    return int(length)
