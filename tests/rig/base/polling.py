"""Waiting for something to become true, and proving that it stays untrue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rig.base.errors import RigError

T = TypeVar("T")


def until(probe: Callable[[], T | None], what: str, *, timeout_s: float = 30, poll_s: float = 0.1) -> T:
    """The probe's first true answer; raise with its last one when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise RigError(f"{what}: not so after {timeout_s:.0f} s, last seen {answer!r}")
        time.sleep(poll_s)


async def soon(probe: Callable[[], T | None], what: str, *, timeout_s: float = 30, poll_s: float = 0.01) -> T:
    """As `until`, while the event loop goes on."""

    async def asked() -> T | None:
        return probe()

    return await eventually(asked, what, timeout_s=timeout_s, poll_s=poll_s)


async def eventually(
    probe: Callable[[], Awaitable[T | None]], what: str, *, timeout_s: float = 30, poll_s: float = 0.1
) -> T:
    """As `soon`, for a probe that has to wait itself."""
    deadline = time.monotonic() + timeout_s
    while not (answer := await probe()):
        if time.monotonic() > deadline:
            raise RigError(f"{what}: not so after {timeout_s:.0f} s, last seen {answer!r}")
        await asyncio.sleep(poll_s)
    return answer


def stays_untrue(probe: Callable[[], object], *, for_s: float, poll_s: float = 0.2) -> bool:
    """Whether the probe had no true answer for that long."""
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        if probe():
            return False
        time.sleep(poll_s)
    return True


def play(scenario: Callable[[], Awaitable[None]], *, limit_s: float = 90) -> None:
    """Do it in an event loop of its own, within that time."""

    async def bounded() -> None:
        async with asyncio.timeout(limit_s):
            await scenario()

    asyncio.run(bounded())
