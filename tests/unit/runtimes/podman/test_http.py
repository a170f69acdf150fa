"""The small HTTP client for Podman's socket, against a server that says what a test wants."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.images.content import content_of
from schedkit.model.images.manifests import render_manifest
from schedkit.runtimes.containerd.client import Containerd
from schedkit.runtimes.errors import (
    HungUpError,
    NoSocketError,
    NotAnsweringError,
    NotPermittedError,
    RefusedError,
    SilentError,
    TooOldError,
)
from schedkit.runtimes.image_content import ImageContent
from schedkit.runtimes.podman.client import Podman
from schedkit.runtimes.podman.request import Request
from schedkit.runtimes.podman.server import Server

Reply = Callable[[socket.socket], None]


@contextmanager
def serving(folder: Path, *replies: Reply) -> Iterator[Server]:
    """Each reply answers one connection, and closes it."""
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(10)

        def answer() -> None:
            for reply in replies:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(10)
                    reply(connection)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield Server(path)
        finally:
            thread.join(10)
        assert not thread.is_alive()


def saying(text: bytes) -> Reply:
    """Read the request's head, then say that."""

    def reply(connection: socket.socket) -> None:
        heard = b""
        while b"\r\n\r\n" not in heard:
            heard += connection.recv(1 << 16)
        connection.sendall(text)

    return reply


def test_an_answer_of_known_length_is_read(tmp_path: Path) -> None:
    text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Thing: one\r\n\r\nhello and more"
    with serving(tmp_path, saying(text)) as server, server.ask(Request("GET", "/")) as answer:
        assert (answer.status, answer.headers["x-thing"], answer.read()) == (200, "one", b"hello")


def test_chunks_are_put_together(tmp_path: Path) -> None:
    text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n"
    with serving(tmp_path, saying(text)) as server, server.ask(Request("GET", "/")) as answer:
        assert answer.read() == b"abcde"


UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}


def test_an_upgraded_answer_is_a_plain_stream_until_its_end(tmp_path: Path) -> None:
    text = b"HTTP/1.1 101 UPGRADED\r\n\r\nwhatever comes"
    with (
        serving(tmp_path, saying(text)) as server,
        server.ask(Request("POST", "/", headers=UPGRADE)) as answer,
    ):
        assert (answer.status, b"".join(answer.raw())) == (101, b"whatever comes")


def test_an_answer_without_a_length_ends_with_the_connection(tmp_path: Path) -> None:
    text = b"HTTP/1.1 200 OK\r\n\r\nto the end"
    with serving(tmp_path, saying(text)) as server, server.ask(Request("GET", "/")) as answer:
        assert answer.read() == b"to the end"


def test_an_answer_that_only_says_to_wait_is_passed_over(tmp_path: Path) -> None:
    text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with serving(tmp_path, saying(text)) as server, server.ask(Request("GET", "/")) as answer:
        assert (answer.status, answer.read()) == (200, b"ok")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Len", "closed the connection", id="half a header"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", "closed the connection", id="half a body"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
            "closed the connection",
            id="half a chunk",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "illegal chunk header",
            id="no number",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n", "bad Content-Length", id="no length"
        ),
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", "something that is not HTTP", id="another protocol"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 101 + b"\r\n", "more than 100 headers", id="many headers"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 11_000, "too long", id="endless headers"),
        pytest.param(b"HTTP/1.1 200 " + b"x" * (1 << 16), "too long", id="an endless line"),
        pytest.param(b"HTTP/1.1 101 UPGRADED\r\n\r\n", "invalid HTTP", id="a change that nobody asked for"),
    ],
)
def test_nonsense_is_an_error_and_never_an_answer(tmp_path: Path, text: bytes, reason: str) -> None:
    with (
        serving(tmp_path, saying(text)) as server,
        pytest.raises(NotAnsweringError, match=reason) as caught,
        server.ask(Request("GET", "/")) as answer,
    ):
        answer.read()

    assert caught.value.acted


def hang_up(_: socket.socket) -> None:
    """As a service that was about to end: the request stays unread."""


GOOD = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@pytest.mark.parametrize("gone", [hang_up, saying(b"")], ids=["request unread", "request read"])
def test_a_question_is_put_once_more_to_a_service_that_hung_up_without_a_word(
    tmp_path: Path, gone: Reply
) -> None:
    with serving(tmp_path, gone, GOOD) as server, server.ask(Request("GET", "/")) as answer:
        assert answer.read() == b"ok"


def test_who_hangs_up_twice_is_not_asked_a_third_time(tmp_path: Path) -> None:
    with (
        serving(tmp_path, hang_up, hang_up) as server,
        pytest.raises(HungUpError, match="closed the connection") as caught,
    ):
        server.ask(Request("GET", "/"))

    assert caught.value.acted


def test_what_may_have_been_done_is_not_asked_for_again(tmp_path: Path) -> None:
    with serving(tmp_path, hang_up) as server, pytest.raises(HungUpError):
        server.ask(Request("POST", "/"))


def test_an_image_is_loaded_once_more_when_the_service_went_to_sleep_just_then(tmp_path: Path) -> None:
    """What was told of its progress is not told again."""
    layer = b"layer"
    image = image_of(layer)
    loaded = b'{"Names": ["%b"]}' % image.reference.encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    told: list[int] = []

    with serving(tmp_path, after_body(b""), after_body(head % len(loaded) + loaded), GOOD) as server:
        Podman(server.path).load(image, lambda progress: told.append(progress.done_bytes))

    assert told == [len(layer)]


def after_body(text: bytes) -> Reply:
    """Read a request with all its chunks, then say that."""

    def reply(connection: socket.socket) -> None:
        heard = b""
        while not heard.endswith(b"0\r\n\r\n"):
            heard += connection.recv(1 << 16)
        connection.sendall(text)

    return reply


def image_of(layer: bytes) -> ImageContent:
    """An image with one layer."""
    oci = "application/vnd.oci.image"
    part = content_of(layer, f"{oci}.layer.v1.tar").descriptor
    config = content_of(b"{}", f"{oci}.config.v1+json")
    manifest = content_of(render_manifest(config=config.descriptor, layers=(part,)))
    whole = (manifest, config, (part,), (part.digest,), lambda _: [layer])
    return ImageContent("registry.rig.test/x", *whole, UNSIGNED)


def test_an_answer_that_never_ends_is_not_read_to_its_end(tmp_path: Path) -> None:
    def flood(connection: socket.socket) -> None:
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")(connection)
        try:
            while True:
                connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
        except OSError:
            pass  # the client has had enough

    with (
        serving(tmp_path, flood) as server,
        pytest.raises(NotAnsweringError, match="more than 16 MiB"),
        server.ask(Request("GET", "/")) as answer,
    ):
        answer.read()


def test_patience_ends(tmp_path: Path) -> None:
    done = threading.Event()

    def say_nothing(_: socket.socket) -> None:
        done.wait(10)

    with serving(tmp_path, say_nothing) as server:
        with pytest.raises(SilentError, match="said nothing for 0 s"):
            server.ask(Request("GET", "/", timeout_s=0.05))
        done.set()


def test_another_protocol_is_recognized_though_its_server_waits_for_us(tmp_path: Path) -> None:
    done = threading.Event()

    def greet(connection: socket.socket) -> None:
        saying(b"SSH-2.0-OpenSSH_9\r\n")(connection)
        done.wait(10)

    with serving(tmp_path, greet) as server:
        with pytest.raises(NotAnsweringError, match="something that is not HTTP"):
            server.ask(Request("POST", "/"))
        done.set()


def test_a_body_is_sent_in_chunks_and_its_source_may_raise(tmp_path: Path) -> None:
    def breaks_off() -> Iterator[bytes]:
        yield b"abc"
        raise TimeoutError("the registry is silent")

    heard = bytearray()

    def listen(connection: socket.socket) -> None:
        while piece := connection.recv(1 << 16):
            heard.extend(piece)

    with serving(tmp_path, listen) as server, pytest.raises(TimeoutError, match="the registry is silent"):
        server.ask(Request("POST", "/", breaks_off()))

    assert heard.endswith(b"\r\n\r\n3\r\nabc\r\n")  # and no last chunk, which would make it look complete


def test_a_server_that_refuses_before_it_has_all_is_heard(tmp_path: Path) -> None:
    refusal = saying(b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nfull")
    with (
        serving(tmp_path, refusal) as server,
        server.ask(Request("POST", "/", (bytes(1 << 16) for _ in range(1000)))) as answer,
    ):
        assert (answer.status, answer.read()) == (500, b"full")


@pytest.mark.parametrize("name", ["missing", "a-file", "a-file/below", "x" * 200])
def test_where_nobody_listens_it_is_said_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").write_text("no socket")

    with pytest.raises(NotAnsweringError, match=r"--socket|shorter"):
        Server(tmp_path / name).ask(Request("GET", "/"))


def test_a_socket_without_its_server_is_told_from_no_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / "left"))

    with pytest.raises(NotAnsweringError, match="no program listens there") as caught:
        Server(tmp_path / "left").ask(Request("GET", "/"))

    assert not isinstance(caught.value, NoSocketError)
    assert not caught.value.acted


@pytest.mark.parametrize("runtime", [Podman, Containerd])
def test_a_socket_that_is_not_for_this_user_asks_for_root(
    tmp_path: Path, runtime: type[Podman | Containerd]
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        path = tmp_path / "socket"
        listener.bind(str(path))
        listener.listen()
        path.chmod(0)

        with without_roots_rights(), pytest.raises(NotPermittedError, match="run as root"):
            runtime(path).version()


@pytest.mark.parametrize(
    ("header", "error", "reason"),
    [
        pytest.param(b"Libpod-API-Version: 3.4.4\r\n", TooOldError, "update it to 4.0", id="too old"),
        pytest.param(b"Api-Version: 1.41\r\n", RefusedError, "is not Podman", id="Docker"),
    ],
)
def test_what_is_no_podman_of_ours_is_told_apart(
    tmp_path: Path, header: bytes, error: type[Exception], reason: str
) -> None:
    text = b"HTTP/1.1 200 OK\r\n" + header + b"Content-Length: 2\r\n\r\nOK"
    with serving(tmp_path, saying(text)) as server, pytest.raises(error, match=reason):
        Podman(server.path).version()


def test_a_version_of_podman_five_is_fine(tmp_path: Path) -> None:
    text = b"HTTP/1.1 200 OK\r\nLibpod-API-Version: 5.4.2\r\nContent-Length: 2\r\n\r\nOK"
    with serving(tmp_path, saying(text)) as server:
        assert Podman(server.path).version() == "5.4.2"


@contextmanager
def without_roots_rights() -> Iterator[None]:
    """As somebody else for a moment; nothing happens to a user who is not root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
