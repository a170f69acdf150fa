"""Connecting to a runtime's unix socket, with an answer to every way in which that fails."""

from __future__ import annotations

import socket
from pathlib import Path

from schedkit.runtimes.errors import NoSocketError, NotAnsweringError, NotPermittedError

_CONNECT_TIMEOUT_S = 5.0
# AF_UNIX addresses are that short; the kernel would only say "path too long"
_PATH_LIMIT_BYTES = 107
_UNITS = {"Podman": "podman.socket", "containerd": "containerd"}


def connect(path: Path, runtime: str) -> socket.socket:
    """A connection to the runtime that listens there."""
    start = f"install it, start it (`systemctl start {_UNITS[runtime]}`), or name its socket with --socket"
    if len(bytes(path)) > _PATH_LIMIT_BYTES:
        shorten = "give a shorter path, or make a link with a shorter path and give that link"
        raise NoSocketError(f"{path} is too long for a socket's path", shorten)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_CONNECT_TIMEOUT_S)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise NoSocketError(f"{runtime} has no socket at {path}", start) from error
        if isinstance(error, PermissionError):
            raise NotPermittedError(f"this user may not use {path}", "run as root") from error
        raise NotAnsweringError(f"{runtime} does not answer at {path}: {_reason(error)}", start) from error
    return connection


def _reason(error: OSError) -> str:
    return "no program listens there" if isinstance(error, ConnectionRefusedError) else str(error)
