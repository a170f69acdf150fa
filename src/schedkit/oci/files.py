"""Files that are whole or not there, whenever the machine stops."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PIECE = 256 * 1024


def write_whole(path: Path, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
    """Replace the file by these pieces; if one cannot be had, or the machine stops, it is as before."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
    scratch = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def read_pieces(path: Path) -> Iterator[bytes]:
    """A regular file's content; `OSError` for links, pipes and devices, which could be or do anything."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is not a regular file")
        while piece := file.read(_PIECE):
            yield piece


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time into the block; the file stays, because removing it would let in two."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
