"""Faults between client and server: a relay that cuts or forgets, and answers no real server would give.

Both live in the running event loop and listen on loopback only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias


class Relay:
    """Passes bytes on to a server, until told to cut connections or to forget them."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = 0  # known once it listens
        self.accepted = 0
        self._open: set[asyncio.Event] = set()  # one for each connection; unset: its bytes are swallowed
        self._writers: set[asyncio.StreamWriter] = set()

    def forget(self) -> None:
        """From now on no byte passes on any existing connection, and nobody is told; new ones work."""
        for each in self._open:
            each.clear()

    def cut(self) -> None:
        """Reset every connection; new ones work."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        passing = asyncio.Event()
        passing.set()
        self._open.add(passing)
        self._writers.add(writer)
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(onward)
            await asyncio.gather(self._pass(reader, onward, passing), self._pass(there, writer, passing))
        except OSError:
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            self._open.discard(passing)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event
    ) -> None:
        try:
            while chunk := await reader.read(65536):
                await passing.wait()
                writer.write(chunk)
                await writer.drain()
        except OSError:
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.close()


@asynccontextmanager
async def relay(port: int) -> AsyncIterator[Relay]:
    """A relay to that loopback port."""
    made = Relay(port)
    async with listening(made.accept) as made.port:
        try:
            yield made
        finally:
            made.cut()


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answer: TypeAlias = bytes | Callable[[Asked], Awaitable[bytes]]


@dataclass
class Scripted:
    """A server that gives the next answer of its script to each request; the last one for ever.

    An answer is the bytes to send. It keeps the connection open exactly if the answer has a Content-Length;
    after any other, it closes it.
    """

    answers: Sequence[Answer]
    port: int = 0
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while await self._answer_one(reader, writer):
                pass
        writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = await _read_request(reader)
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(asked)
        said = answer if isinstance(answer, bytes) else await answer(asked)
        writer.write(said)
        await writer.drain()
        return b"Content-Length:" in said


async def _read_request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rest = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, target, headers, body)


@asynccontextmanager
async def scripted(*answers: Answer) -> AsyncIterator[Scripted]:
    """A server with that script."""
    made = Scripted(answers)
    async with listening(made.accept) as made.port:
        yield made


def answer(body: bytes = b"{}", *, code: int = 200, kind: str = "application/json", more: str = "") -> bytes:
    """A whole answer; `kind` "" leaves out Content-Type, `more` are further header lines."""
    lines = [f"HTTP/1.1 {code} Whatever", f"Content-Length: {len(body)}", *filter(None, more.split("\n"))]
    if kind:
        lines.append(f"Content-Type: {kind}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def stream(*chunks: bytes, whole: bool = True) -> bytes:
    """A chunked answer; one that is not whole lacks its end, as when the connection breaks."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    parts = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks]
    return head + b"".join(parts) + (b"0\r\n\r\n" if whole else b"")


_Accept: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(accept: _Accept) -> AsyncIterator[int]:
    """The port on which each connection is given to `accept`; all end with the block."""
    tasks: set[asyncio.Task[None]] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await accept(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(tracked, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # a closed transport lets go of its socket in the next round of the loop
