"""What is an answer in HTTP/1.1, and what is none: it is read in one way, or not at all."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import chain, repeat

import pytest

from schedkit.oci.http import http1
from schedkit.oci.http.http1 import Body, Broken, Head, Reader


def reader(*parts: bytes) -> Reader:
    """A connection on which these bytes come, and that ends then."""
    waiting = chain(parts, repeat(b""))
    return Reader(lambda: next(waiting))


def read(data: bytes, *, method: str = "GET", at_once: int = 10_000) -> tuple[Head, bytes, Body]:
    """The answer, of which so many bytes come at once."""
    source = reader(*(data[at : at + at_once] for at in range(0, len(data), at_once)))
    head = http1.read_head(source)
    body = Body(source, head, method=method)
    return head, b"".join(body.pieces()), body


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("data", "status", "content", "lasting"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True, id="with a length"),
        pytest.param(b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b"", True, id="without a reason"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1;x\r\n!\r\n0\r\nA: b\r\n\r\n",
            200,
            b"hi!",
            True,
            id="in chunks",
        ),
        pytest.param(b"HTTP/1.1 404 No\r\n\r\nto the end", 404, b"to the end", False, id="until the end"),
        pytest.param(b"HTTP/1.1 204 No\r\n\r\n", 204, b"", True, id="without a body"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", False, id="HTTP/1.0"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x, Close\r\n\r\nhi",
            200,
            b"hi",
            False,
            id="a server that says goodbye",
        ),
        pytest.param(
            b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            200,
            b"hi",
            True,
            id="after preliminaries",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nhi",
            200,
            b"hi",
            True,
            id="the same length twice",
        ),
    ],
)
def test_an_answer_is_read(data: bytes, status: int, content: bytes, lasting: bool, at_once: int) -> None:
    head, found, body = read(data, at_once=at_once)

    assert (head.status, found) == (status, content)
    assert (body.is_lasting, body.is_whole) == (lasting, True)


def test_the_answer_to_head_has_no_body_whatever_it_says() -> None:
    assert read(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", method="HEAD")[1] == b""


def test_headers_have_lower_case_names_and_repeated_ones_are_one_list() -> None:
    head, _, _ = read(b"HTTP/1.1 200 OK\r\nX-A:  b \r\nx-a:c\r\nContent-Length: 0\r\n\r\n")

    assert head.headers == {"x-a": "b, c", "content-length": "0"}


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/2 200 OK\r\n\r\n", id="another version"),
        pytest.param(b"HTTP/1.1 99 Low\r\n\r\n", id="no status"),
        pytest.param(b"SSH-2.0\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 101 Switching\r\n\r\n", id="a change of protocol"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", id="lines that end otherwise"),
        pytest.param(OK + b"Content-Length : 2\r\n\r\nhi", id="a blank after a name"),
        pytest.param(OK + b"A: b\r\n c\r\n\r\n", id="a header that goes on in the next line"),
        pytest.param(OK + b"A: b\0\r\n\r\n", id="a null"),
        pytest.param(OK + b"A: b\rc\r\n\r\n", id="half a line end"),
        pytest.param(OK + b"A: b", id="half a head"),
        pytest.param(OK + b"A: " + b"b" * 70_000 + b"\r\n\r\n", id="a head without an end"),
        pytest.param(OK + b"A: b\r\n" * 101 + b"\r\n", id="a crowd of headers"),
        pytest.param(OK + b"Content-Length: 3\r\n\r\nhi", id="less than it says"),
        pytest.param(OK + b"Content-Length: +2\r\n\r\nhi", id="a length with a sign"),
        pytest.param(OK + b"Content-Length: 2, 3\r\n\r\nhi", id="two lengths"),
        pytest.param(OK + b"Content-Length: \xb2\r\n\r\nhi", id="a length in other digits"),
        pytest.param(
            OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi", id="two ways to end"
        ),
        pytest.param(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="compressed on the way"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", id="a chunk with a sign"
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n", id="a chunk with an x"
        ),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n", id="a longer chunk"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", id="no last chunk"),
    ],
)
def test_what_is_no_answer_is_broken(data: bytes) -> None:
    with pytest.raises(Broken):
        read(data)


BLANKS = b" \t" * 30_000


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\na:" + BLANKS,
        b"HTTP/1.1 200 OK\r\na:x" + BLANKS + b"x",
        b"HTTP/1.1 200 OK\r\na:" + BLANKS + b"\0",
        b"HTTP/1.1 200 OK\r\na:" + BLANKS + b"\n",
        b"HTTP/1.1 200" + BLANKS + b"\0",
        b"a" * 60_000 + b"\0",
    ],
    ids=["empty", "in the middle", "before a NUL", "before a line feed", "in the status", "no blank"],
)
def test_no_head_takes_long_to_read_or_to_refuse(head: bytes) -> None:
    """No deadline ends an expression: it stands where bytes are waited for."""
    began = time.process_time()

    with suppress(Broken):
        http1.read_head(reader(head + b"\r\n\r\n"))

    assert time.process_time() - began < 0.1


def test_a_chunk_of_blanks_does_not_take_long_to_refuse() -> None:
    began = time.process_time()

    with pytest.raises(Broken, match="how long"):
        read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1" + BLANKS[:4000] + b"\0\r\n")

    assert time.process_time() - began < 0.1


def test_what_was_not_asked_for_stays_and_is_seen() -> None:
    source = reader(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n")
    list(Body(source, http1.read_head(source), method="GET").pieces())

    assert not source.is_empty


def test_a_request_is_written() -> None:
    assert http1.written("GET", "/v2/", [("Host", "a.test")]) == b"GET /v2/ HTTP/1.1\r\nHost: a.test\r\n\r\n"


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        ("/ HTTP/1.1\r\nA: b", "A", "b"),
        ("/a b", "A", "b"),
        ("/é", "A", "b"),
        ("/", "A:", "b"),
        ("/", "A", "b\r\nC: d"),
    ],
)
def test_nothing_is_written_that_would_be_read_as_something_else(target: str, name: str, value: str) -> None:
    with pytest.raises(http1.Unwritable):
        http1.written("GET", target, [(name, value)])
