"""One deadline for many operations: what asks a server a hundred questions does not wait a hundred times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_latest: Final[ContextVar[float]] = ContextVar("latest", default=float("inf"))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let every operation in this block end by then, whatever time of its own it has."""
    token = _latest.set(capped(time.monotonic() + seconds))
    try:
        yield
    finally:
        _latest.reset(token)


def capped(ends: float) -> float:
    """An operation's deadline on the monotonic clock, or that of the block it is in if it is earlier."""
    return min(ends, _latest.get())
