"""`/healthz` and `/readyz`, as the kubelet asks for them, in a few lines: nothing else is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from schedkit.sked.settings import Address

_LINE_LIMIT = 4096
_ANSWER_WITHIN_S = 5.0


@asynccontextmanager
async def serving(address: Address, troubles: Callable[[], tuple[str, ...]]) -> AsyncIterator[None]:
    """Answer until left; the agent is ready as long as it has no troubles."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                line = await reader.readline()
                writer.write(response(line, troubles()))
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # whoever asked is gone, or asked for too much
        finally:
            writer.close()

    server = await asyncio.start_server(answer, address.host, address.port, limit=_LINE_LIMIT)
    async with server:
        yield


def response(request: bytes, troubles: tuple[str, ...]) -> bytes:
    """The answer to the first line of a request."""
    path = [*request.split(), b"", b""][1].partition(b"?")[0]
    if path == b"/healthz":
        return _answer(HTTPStatus.OK, "ok")
    if path != b"/readyz":
        return _answer(HTTPStatus.NOT_FOUND, "there are /healthz and /readyz")
    if troubles:
        return _answer(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(troubles))
    return _answer(HTTPStatus.OK, "ok")


def _answer(status: HTTPStatus, text: str) -> bytes:
    body = text.encode() + b"\n"
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
