"""One change of the scheduler at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedkit.schedctl.errors import Problem

PATIENCE_S = 60.0
_POLL_S = 0.1
_LONGEST_NOTE = 200


@contextmanager
def exclusive(path: Path, doing: str, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Wait until nobody else changes the scheduler, and keep others waiting; it ends with its process."""
    descriptor = _open(path)
    try:
        _acquire(descriptor, time.monotonic() + patience_s)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} ({doing})".encode()[:_LONGEST_NOTE], 0)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError as error:
        why = f"{path} is not for this user"
        raise Problem("cannot change the scheduler", why=why, remedy="run as root") from error


def _acquire(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(descriptor, _LONGEST_NOTE, 0).decode(errors="replace") or "not known"
                raise Problem(
                    "another schedctl is changing the scheduler",
                    why=f"it is process {holder}",
                    remedy="wait for its end, or end it; nothing was changed",
                ) from None
            time.sleep(_POLL_S)
        else:
            return
