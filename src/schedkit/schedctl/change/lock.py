"""One change of the scheduler at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schedkit.schedctl.problems.problem import Problem

PATIENCE_S = 60.0
_SILENCE_S = 1.0  # what takes no longer need not be explained
_POLL_S = 0.1
_LONGEST_NOTE = 200


def _ignore(line: str) -> None:
    """Tell nobody."""


@contextmanager
def exclusive(
    path: Path, doing: str, *, patience_s: float = PATIENCE_S, tell: Callable[[str], None] = _ignore
) -> Iterator[None]:
    """Wait until nobody else changes the scheduler, and keep others waiting; it ends with its process.

    Whoever waits is told for whom.
    """
    descriptor = _open(path)
    try:
        _acquire(descriptor, patience_s, tell)
        since = time.strftime("%H:%M:%S")
        note = f"process {os.getpid()} (schedctl {doing}, since {since})"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, note.encode()[:_LONGEST_NOTE], 0)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError as error:
        why = f"this user may not use {path}"
        raise Problem("cannot change the scheduler", why=why, remedy="run as root") from error


def _acquire(descriptor: int, patience_s: float, tell: Callable[[str], None]) -> None:
    began = time.monotonic()
    is_told = False
    while not _is_acquired(descriptor):
        waited_s = time.monotonic() - began
        if waited_s > patience_s:
            raise Problem(
                "another schedctl is changing the scheduler",
                why=f"it is {_holder(descriptor)}",
                remedy="wait until it ends, or end it; nothing was changed",
            )
        if waited_s > _SILENCE_S and not is_told:
            tell(f"waiting for {_holder(descriptor)}")
            is_told = True
        time.sleep(_POLL_S)


def _is_acquired(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, _LONGEST_NOTE, 0).decode(errors="replace") or "an unknown process"
