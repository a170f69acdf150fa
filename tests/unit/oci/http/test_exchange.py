"""What is an answer in HTTP/1.1, and what is none: it is read in one way, or not at all."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, repeat

import pytest

from rig.base import effort
from schedkit.oci.http.exchange import Broken, Exchange, Head, TooManyHeaders, Unwritable, question

OK = b"HTTP/1.1 200 OK\r\n"


def asking(*parts: bytes, method: str = "GET") -> Exchange:
    """A question that was put on a connection on which these bytes come, and that ends then."""
    waiting = chain(parts, repeat(b""))
    exchange = Exchange(question(method, "/", [("Host", "a.test")]), lambda: next(waiting))
    for _ in exchange.request(()):
        pass
    return exchange


def read(data: bytes, *, method: str = "GET", at_once: int = 10_000) -> tuple[Head, bytes, bool]:
    """The answer, of which so many bytes come at once, and whether the connection is good for another."""
    parts = (data[at : at + at_once] for at in range(0, len(data), at_once))
    exchange = asking(*parts, method=method)
    return exchange.head(), b"".join(exchange.pieces()), exchange.may_be_followed


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
        pytest.param(
            b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", 304, b"", True, id="a length of something else"
        ),
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
    head, found, may_be_followed = read(data, at_once=at_once)

    assert (head.status, found) == (status, content)
    assert may_be_followed is lasting


def test_the_answer_to_head_has_no_body_whatever_it_says() -> None:
    _, content, may_be_followed = read(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", method="HEAD")

    assert (content, may_be_followed) == (b"", True)


def test_an_answer_without_a_body_ends_with_its_head() -> None:
    """Nobody reads a body to use the connection again."""
    exchange = asking(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    exchange.head()

    assert exchange.may_be_followed


def test_headers_have_lower_case_names_and_repeated_ones_are_one_list() -> None:
    head, _, _ = read(b"HTTP/1.1 200 OK\r\nX-A:  b \r\nx-a:c\r\nContent-Length: 0\r\n\r\n")

    assert head.headers == {"x-a": "b, c", "content-length": "0"}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/2 200 OK\r\n\r\n", id="another version"),
        pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", id="another version with a point"),
        pytest.param(b"HTTP/1.2 200 OK\r\n\r\n", id="a version that is to come"),
        pytest.param(b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", id="nothing before the status"),
        pytest.param(b"HTTP/1.1 99 Low\r\n\r\n", id="no status"),
        pytest.param(b"SSH-2.0\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 101 Switching\r\n\r\n", id="a change of protocol"),
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", id="lines that end otherwise"),
        pytest.param(OK + b"A: b\nContent-Length: 2\r\n\r\nhi", id="one line that ends otherwise"),
        pytest.param(OK + b"A: b\n\r\n\r\n", id="a head that ends twice"),
        pytest.param(OK + b"Content-Length : 2\r\n\r\nhi", id="a blank after a name"),
        pytest.param(OK + b"A: b\r\n c\r\n\r\n", id="a header that goes on in the next line"),
        pytest.param(OK + b"\tA: b\r\n\r\n", id="a status that goes on in the next line"),
        pytest.param(OK + b"A: b\0\r\n\r\n", id="a null"),
        pytest.param(OK + b"A: b\rc\r\n\r\n", id="half a line end"),
        pytest.param(OK + b"A: b", id="half a head"),
        pytest.param(OK + b"A: " + b"b" * 70_000 + b"\r\n\r\n", id="a head without an end"),
        pytest.param(OK + b"A: b\r\n" * 101 + b"\r\n", id="a crowd of headers"),
        pytest.param(OK + b"Content-Length: 3\r\n\r\nhi", id="less than it says"),
        pytest.param(OK + b"Content-Length: +2\r\n\r\nhi", id="a length with a sign"),
        pytest.param(OK + b"Content-Length: 2, 3\r\n\r\nhi", id="two lengths"),
        pytest.param(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", id="two lengths in two lines"),
        pytest.param(OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nhi", id="a length beyond numbers"),
        pytest.param(OK + b"Content-Length: \xb2\r\n\r\nhi", id="a length in other digits"),
        pytest.param(
            OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi", id="two ways to end"
        ),
        pytest.param(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="compressed on the way"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="chunked twice",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n",
            id="a chunk whose line ends otherwise",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 10_000 + b"\r\n!\r\n0\r\n\r\n",
            id="a chunk with more words than bytes",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
            id="a crowd of headers after the last chunk",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", id="a chunk with a sign"
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n", id="a chunk with an x"
        ),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n", id="a longer chunk"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", id="no last chunk"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2;\0\r\nhi\r\n0\r\n\r\n", id="a null in a chunk's words"
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1;a\rb\r\n!\r\n0\r\n\r\n",
            id="half a line end in a later chunk's words",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\n\r\n",
            id="a line that ends otherwise after the last chunk",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n c\r\n\r\n",
            id="a header that goes on after the last chunk",
        ),
    ],
)
@pytest.mark.parametrize("at_once", [1, 10_000])
def test_what_is_no_answer_is_broken(data: bytes, at_once: int) -> None:
    with pytest.raises(Broken):
        read(data, at_once=at_once)


def test_a_chunk_may_have_anything_in_it_and_any_length() -> None:
    whole = bytes(range(256)) * 40 + b"\r\n\0\n 0\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (whole, whole[:1], whole[:1023], b"\n"))

    _, content, may_be_followed = read(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")

    assert content == whole + whole[:1] + whole[:1023] + b"\n"
    assert may_be_followed


def test_an_answer_with_too_many_headers_is_told_from_a_broken_one() -> None:
    with pytest.raises(TooManyHeaders, match="101 headers; the limit is 100"):
        read(OK + b"A: b\r\n" * 100 + b"Content-Length: 0\r\n\r\n")


BLANKS = b" \t" * 30_000


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\na:" + BLANKS,
        b"HTTP/1.1 200 OK\r\na:x" + BLANKS + b"x",
        b"HTTP/1.1 200 OK\r\na:" + BLANKS + b"\0",
        b"HTTP/1.1 200 OK\r\na:" + BLANKS + b"\v",
        b"HTTP/1.1 200 OK\r\na:" + BLANKS + b"\f",
        b"HTTP/1.1 200 OK\r\na:" + BLANKS + b"\n",
        b"HTTP/1.1 200" + BLANKS + b"\0",
        b"a" * 60_000 + b"\0",
        b"HTTP/1.1 200 OK\r\n" + b"a" * 60_000,
    ],
    ids=[
        "empty",
        "in the middle",
        "before a NUL",
        "before a vertical tab",
        "before a form feed",
        "before a line feed",
        "in the status",
        "no blank",
        "no colon",
    ],
)
def test_no_head_takes_long_to_read_or_to_refuse(head: bytes) -> None:
    """No deadline ends an expression: it stands where bytes are waited for."""
    exchange = asking(head + b"\r\n\r\n")

    with effort.at_most(0.1), suppress(Broken):
        exchange.head()


@pytest.mark.parametrize(
    "chunk",
    [
        b"1" + BLANKS[:4000] + b"\0\r\n",
        b"1;" + BLANKS[:4000] + b"\n\r\n",
        b"1;" + BLANKS + b"\n\r\n",
        b"0\r\na:" + BLANKS[:4000] + b"\0\r\n\r\n",
        b"0\r\na:" + BLANKS + b"\0\r\n\r\n",
    ],
    ids=[
        "its length",
        "its words",
        "a line without an end",
        "after the last",
        "after the last, without an end",
    ],
)
def test_no_chunk_of_blanks_takes_long_to_refuse(chunk: bytes) -> None:
    exchange = asking(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
    exchange.head()

    with effort.at_most(0.1), pytest.raises(Broken):
        list(exchange.pieces())


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 204 No\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n!",
    ],
    ids=["after a length", "after no body", "after chunks"],
)
def test_what_was_not_asked_for_stays_and_is_seen(data: bytes) -> None:
    exchange = asking(data)
    exchange.head()
    list(exchange.pieces())

    assert exchange.has_leftovers
    assert not exchange.may_be_followed


def test_a_request_that_was_not_heard_to_its_end_is_not_followed_by_another() -> None:
    given = iter([b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n"])
    asked = question("PUT", "/", [("Host", "a.test"), ("Content-Length", "2")])
    exchange = Exchange(asked, lambda: next(given, b""))
    pieces = exchange.request([b"h", b"i"])
    sent = [next(pieces), next(pieces)]

    assert (exchange.head().status, sent[-1]) == (413, b"h")
    assert not exchange.may_be_followed


@pytest.mark.parametrize(("status", "is_through"), [(200, True), (407, False)])
def test_a_proxy_lets_bytes_through_or_answers(status: int, is_through: bool) -> None:
    answer = b"HTTP/1.1 %d As Asked\r\nContent-Length: 9\r\n\r\n" % status
    exchange = asking(answer, method="CONNECT")

    assert exchange.head().status == status
    assert not exchange.has_leftovers
    if is_through:
        assert list(exchange.pieces()) == []


def test_a_request_is_written() -> None:
    exchange = Exchange(question("PUT", "/v2/", [("Host", "a.test"), ("Content-Length", "2")]), bytes)

    written = b"".join(exchange.request([b"h", b"i"]))

    assert written == b"PUT /v2/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi"


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
    with pytest.raises(Unwritable):
        question("GET", target, [("Host", "a.test"), (name, value)])


def test_content_of_another_length_than_announced_is_not_sent() -> None:
    exchange = Exchange(question("PUT", "/", [("Host", "a.test"), ("Content-Length", "1")]), bytes)

    with pytest.raises(Unwritable):
        list(exchange.request([b"hi"]))
