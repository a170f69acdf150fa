"""What the kubelet is answered."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable
from typing import TypeVar

import pytest

from rig.base.processes import free_port
from schedkit.sked.agent import probes
from schedkit.sked.settings import Address

R = TypeVar("R")
TROUBLE = ("the kernel was not looked at for 60 s", "the API server has not taken the report")


@pytest.mark.parametrize(
    ("request_line", "troubles", "status", "body"),
    [
        (b"GET /healthz HTTP/1.1\r\n", (), 200, "ok\n"),
        (b"GET /healthz HTTP/1.1\r\n", TROUBLE, 200, "ok\n"),
        (b"GET /readyz HTTP/1.1\r\n", (), 200, "ok\n"),
        (b"GET /readyz?verbose HTTP/1.1\r\n", (), 200, "ok\n"),
        (b"GET /readyz HTTP/1.1\r\n", TROUBLE, 503, "\n".join(TROUBLE) + "\n"),
        (b"GET /metrics HTTP/1.1\r\n", (), 404, "there are /healthz and /readyz\n"),
        (b"GET\r\n", (), 404, "there are /healthz and /readyz\n"),
        (b"", (), 404, "there are /healthz and /readyz\n"),
        (b"\xff\xfe \x00\r\n", (), 404, "there are /healthz and /readyz\n"),
    ],
)
def test_an_answer(request_line: bytes, troubles: tuple[str, ...], status: int, body: str) -> None:
    head, _, content = probes.response(request_line, troubles).partition(b"\r\n\r\n")

    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert f"Content-Length: {len(content)}".encode() in head
    assert content.decode() == body


def served(ask: Callable[[int], R], troubles: tuple[str, ...] = (), host: str | None = "127.0.0.1") -> R:
    async def play() -> R:
        port = free_port()
        async with probes.serving(Address(host, port), lambda: troubles):
            return await asyncio.to_thread(ask, port)

    return asyncio.run(play())


def ask(path: str, host: str = "127.0.0.1") -> Callable[[int], tuple[int, str]]:
    def do(port: int) -> tuple[int, str]:
        connection = http.client.HTTPConnection(host, port, timeout=10)
        connection.request("GET", path, headers={"User-Agent": "kube-probe/1.34"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    return do


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_probes_are_answered_on_every_address(host: str) -> None:
    assert served(ask("/readyz", host), host=None) == (200, "ok\n")


def test_an_agent_in_trouble_says_which() -> None:
    assert served(ask("/readyz"), TROUBLE) == (503, "\n".join(TROUBLE) + "\n")


def test_a_request_that_comes_in_parts_is_answered() -> None:
    def in_parts(port: int) -> bytes:
        import socket

        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"GET /read")
            connection.sendall(b"yz HTTP/1.1\r\n")
            connection.sendall(b"Host: node\r\n\r\n")
            said = b""
            while part := connection.recv(4096):
                said += part
            return said

    assert served(in_parts).startswith(b"HTTP/1.1 200 OK\r\n")


def test_who_asks_for_too_much_harms_nobody() -> None:
    def too_much(port: int) -> tuple[int, str]:
        import socket
        from contextlib import suppress

        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"GET /" + b"x" * 100_000)
        return ask("/healthz")(port)

    assert served(too_much) == (200, "ok\n")
