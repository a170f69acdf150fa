"""The fence before each write: whoever holds a lease no longer sends nothing, whenever that turns out.

`lease` says when the fence is closed. It is asked before a request begins, and again when its body goes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from schedkit.kube.errors import FencedError

# Asked right before a request leaves: the seconds it may take, or raises `FencedError` to keep it back.
Fence: TypeAlias = Callable[[], float]


def no_fence() -> float:
    """Lets every request pass."""
    return float("inf")


class FencedBody(aiohttp.BytesPayload):
    """A request's body that asks the fence at the last moment: when a connection is there to write to.

    Connecting may take long, and aiohttp repeats a request by itself when a kept connection turns out to be
    closed: a check before the call would miss both. Without its body the server cannot act on a request.
    """

    def __init__(self, body: bytes, content_type: str, fence: Fence) -> None:
        super().__init__(body, content_type=content_type)
        self._fence = fence
        self.refusal: FencedError | None = None  # None: the fence let it pass so far

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body, unless the fence says no."""
        try:
            self._fence()
        except FencedError as refusal:
            self.refusal = refusal
            raise
        await super().write_with_length(writer, content_length)
