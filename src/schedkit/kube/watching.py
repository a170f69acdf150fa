"""Splits the stream of a watch into lines."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp


async def lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines of any length; half a line at the end of a broken connection is dropped.

    aiohttp's own reader gives up on long lines, and an object may take more than a megabyte.
    """
    pending = bytearray()
    async for chunk in stream.iter_any():
        if b"\n" not in chunk:
            pending += chunk
            continue
        first, *whole, rest = chunk.split(b"\n")
        yield bytes(pending + first)
        for line in whole:
            yield line
        pending = bytearray(rest)
