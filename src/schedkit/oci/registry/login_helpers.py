"""Credential helpers: programs that keep logins, asked within a time limit and believed up to a size."""

from __future__ import annotations

import os
import select
import subprocess
import time
from typing import IO

import msgspec

from schedkit.model.images import strictjson
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import Unauthorized

LONGEST_S = 30.0
_LARGEST = 64 * 1024
_NOTHING_KNOWN = b"credentials not found in native keychain"


class Found(msgspec.Struct, frozen=True, rename="pascal"):
    """What a helper knows about a server."""

    username: str
    secret: str


def ask(program: str, server: str, *, longest_s: float = LONGEST_S) -> Found | None:
    """What the helper knows about that server, or None; `Unauthorized` when it does not do its work."""
    try:
        child = subprocess.Popen(
            [program, "get"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError as error:
        raise Unauthorized(
            f"{program} cannot be run: {error.strerror}. Install it, or log in again"
        ) from error
    with child:
        try:
            output = _converse(child, server, time.monotonic() + longest_s)
        finally:
            child.kill()  # it has answered, or never will
    return parse_answer(output, program, server)


def _converse(child: subprocess.Popen[bytes], server: str, ends: float) -> bytes | None:
    """What the helper prints before it closes its output; None if that is too much or takes too long."""
    stdin, stdout = child.stdin, child.stdout
    if stdin is None or stdout is None:
        raise AssertionError("both are pipes")
    _tell(stdin, server)
    output = b""
    while len(output) <= _LARGEST:
        readable, _, _ = select.select([stdout], [], [], max(0.0, ends - time.monotonic()))
        if not readable:
            return None
        piece = os.read(stdout.fileno(), _LARGEST)
        if not piece:
            return output
        output += piece
    return None


def _tell(stdin: IO[bytes], server: str) -> None:
    try:
        stdin.write(server.encode())
        stdin.close()
    except BrokenPipeError:
        pass  # it does not listen; what it prints decides


def parse_answer(output: bytes | None, program: str, server: str) -> Found | None:
    """What a helper said; None if it knows nothing. `Unauthorized` for what is no answer."""
    if output is None:
        raise Unauthorized(f"{program} took too long or wrote too much: run it by hand, or log in again")
    if _NOTHING_KNOWN in output:
        return None
    try:
        return strictjson.decode(output, Found, what=f"the answer of {program} for {server}")
    except InvalidDocument as error:
        raise Unauthorized(f"{error}. Log in again") from error
