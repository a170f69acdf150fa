"""Files that are whole or not there, whenever the machine stops."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_PIECE = 256 * 1024
MOST_FILES = 512  # in a folder of what was found out before


@contextmanager
def opened(folder: Path, *below: str, make: bool = False) -> Iterator[int]:
    """The folder of these names below the first, as a descriptor; no link among them is followed."""
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for at, name in enumerate(below, start=1):
            inner = _entered(current, name, folder.joinpath(*below[:at]), make=make)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _entered(parent: int, name: str, path: Path, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise OSError(f"{path} is a link or not a folder; links are not followed") from error
        raise


def write_whole(path: Path, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
    """Replace the file by these pieces; if one cannot be had, or the machine stops, it is as before."""
    with opened(path.parent) as folder:
        write_in(folder, path.name, pieces, mode=mode)


def write_in(folder: int, name: str, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
    """As `write_whole`, in a folder that is open."""
    scratch = f".unfinished-{secrets.token_hex(8)}"
    created = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(scratch, created, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(scratch, dir_fd=folder)
        raise
    os.fsync(folder)


def keep_newest(folder: Path) -> None:
    """Let a folder of what was found out before not grow with everything that ever was."""
    by_age = sorted(folder.iterdir(), key=lambda file: file.lstat().st_mtime_ns, reverse=True)
    for file in by_age[MOST_FILES:]:
        file.unlink(missing_ok=True)


def read_pieces(path: Path) -> Iterator[bytes]:
    """A regular file's content; `OSError` for links, pipes and devices, which could be or do anything."""
    with opened(path.parent) as folder:
        file = open_in(folder, path.name)
    return pieces_of(file)


def open_in(folder: int, name: str) -> BinaryIO:
    """A regular file in a folder that is open; `OSError` for anything else, as `read_pieces`."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.fdopen(os.open(name, flags, dir_fd=folder), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(f"{name} is not a regular file")


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """The file's content; it is closed after the last piece."""
    with file:
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
