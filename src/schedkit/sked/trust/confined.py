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

from schedkit.model.api.conditions import legible

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
_LAST_WORDS: Final = 4 << 10  # bytes of what it complains of that are kept
_LONGEST_WORDS: Final = 200


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
            stderr=asyncio.subprocess.PIPE,
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
    if program.stdin is None or program.stdout is None or program.stderr is None:
        raise BrokenOffError("it has no pipes")
    complaints = bytearray()
    telling = asyncio.create_task(_tell(program.stdin, request))
    listening = asyncio.create_task(_keep_last(program.stderr, complaints))
    try:
        answer = await _read(program.stdout, limit)
        code = await program.wait()
        await listening
    finally:
        telling.cancel()
        listening.cancel()
        await asyncio.wait({listening})  # two cannot read what is left
    if code:
        raise BrokenOffError(_ending(code, bytes(complaints)))
    return answer


async def _keep_last(stderr: asyncio.StreamReader, kept: bytearray) -> None:
    """Read all, so that nobody waits who complains at length, and keep the end."""
    while piece := await stderr.read(_LAST_WORDS):
        kept += piece
        del kept[:-_LAST_WORDS]


def _ending(code: int, complaints: bytes) -> str:
    """How it ended, with its last line: the error, if it is a traceback."""
    ended = f"it was ended by signal {-code}" if code < 0 else f"it ended with code {code}"
    lines = complaints.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{ended}: {legible(last)[:_LONGEST_WORDS]}" if last else ended


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


async def _drain(pipe: asyncio.StreamReader | None) -> None:
    """Read what is left in the pipe, which stays open otherwise."""
    while pipe is not None and await pipe.read(1 << 16):
        pass


async def _end(program: asyncio.subprocess.Process) -> None:
    """It, and whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LEFTOVERS_S):
            await _drain(program.stdout)
            await _drain(program.stderr)
    await asyncio.shield(program.wait())


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """What such a program is started with: nothing that is secret."""
    wanted = {*_INHERITED, *_PROXIES, *(name.upper() for name in _PROXIES)}
    kept = {name: value for name, value in own.items() if name in wanted}
    return {**kept, "MALLOC_ARENA_MAX": "1", "LC_ALL": "C.UTF-8"}
