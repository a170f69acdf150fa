"""Runs a program that may do anything: hang, crash, talk without end or eat memory."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

# of what the manager was started with: where Python finds its code, and the way to registries
_INHERITED: Final = (
    "PATH",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_LEFTOVERS_S: Final = 1.0


class BrokenOffError(Exception):
    """The program did not get to its end; the message says what became of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use."""

    time_s: float
    memory: int  # bytes that belong to it alone, whether it touches them or not
    output: int  # bytes


async def run(argv: Sequence[str], request: bytes, limits: Limits, environment: Mapping[str, str]) -> bytes:
    """What the program wrote, after it ended well; everything that it started ends with it.

    Raises `BrokenOffError` in every other case.
    """
    program = await _started(argv, environment)
    try:
        _limit(program.pid, limits)
        async with asyncio.timeout(limits.time_s):
            return await _exchange(program, request, limits.output)
    except TimeoutError as error:
        raise BrokenOffError(f"it did not end within {limits.time_s:g} s") from error
    finally:
        await _end(program)


async def _started(argv: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise BrokenOffError(f"it could not be started: {error}") from error


def _limit(pid: int, limits: Limits) -> None:
    """Before it is told anything: it has nothing to eat memory for yet."""
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_DATA, (limits.memory, limits.memory))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


async def _exchange(program: asyncio.subprocess.Process, request: bytes, limit: int) -> bytes:
    if program.stdin is None or program.stdout is None:
        raise BrokenOffError("it has no pipes")
    telling = asyncio.create_task(_tell(program.stdin, request))
    try:
        answer = await _read(program.stdout, limit)
        code = await program.wait()
    finally:
        telling.cancel()
    if code:
        raise BrokenOffError(f"it ended by signal {-code}" if code < 0 else f"it ended with code {code}")
    return answer


async def _tell(stdin: asyncio.StreamWriter, request: bytes) -> None:
    with suppress(ConnectionError):  # it did not want to know
        stdin.write(request)
        await stdin.drain()
        stdin.close()


async def _read(stdout: asyncio.StreamReader, limit: int) -> bytes:
    pieces = bytearray()
    while piece := await stdout.read(limit + 1 - len(pieces)):
        pieces += piece
        if len(pieces) > limit:
            raise BrokenOffError(f"it wrote more than {limit} bytes")
    return bytes(pieces)


async def _drain(stdout: asyncio.StreamReader | None) -> None:
    """Read what is left in the pipe, which stays open otherwise."""
    while stdout is not None and await stdout.read(1 << 16):
        pass


async def _end(program: asyncio.subprocess.Process) -> None:
    """It, and whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LEFTOVERS_S):
            await _drain(program.stdout)
    await asyncio.shield(program.wait())


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """What such a program is started with: nothing that is secret."""
    wanted = {*_INHERITED, *_PROXIES, *(name.upper() for name in _PROXIES)}
    kept = {name: value for name, value in own.items() if name in wanted}
    return {**kept, "MALLOC_ARENA_MAX": "1", "LC_ALL": "C.UTF-8"}
