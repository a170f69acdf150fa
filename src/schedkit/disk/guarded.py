"""Folders that nobody else can write to: what was decided before is believed from nowhere else.

Every folder on the way counts, because whoever can rename one can put another in its place. Links are not
followed: they lead wherever their owner likes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Unguarded(OSError):  # noqa: N818 - a state of the folder
    """Somebody else could write there; the message says where."""

    remedy = "make root the owner of the file and of every folder above it, and let only root write to them"


class Linked(Unguarded):
    """Something on the way, or at its end, leads elsewhere or nowhere; the message says what."""

    remedy = "give the path of the file itself, without links"


def make_folder(folder: Path) -> None:
    """Make the folder, for its owner alone, unless it is there; `Unguarded` if others can write to it."""
    os.close(_open(folder, make=True))


def read_file(folder: Path, name: str, *, limit: int) -> bytes:
    """The file's content; `OSError` if it is not there, too large, or somebody else could have written it."""
    with _opened(folder, name) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise OSError(f"{folder / name} has more than {limit} bytes")
        return file.read(limit)


def read_obeyed(file: Path, size: int) -> bytes:
    """The beginning of a file whose word counts; root reads none that somebody else could have written."""
    if os.geteuid() != 0:
        with file.open("rb") as opened:
            return opened.read(size)
    try:
        with _opened(file.parent, file.name) as opened:
            return opened.read(size)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
            raise
        is_link = Path(error.filename).is_symlink()
        what = "a link, and root does not follow links" if is_link else "not a folder"
        raise Linked(f"{error.filename} is {what}") from error


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """The file, after it and every folder on the way were looked at."""
    inside, path = _open(folder), folder / name
    try:
        descriptor = _open_in(inside, path, _FILE)
    finally:
        os.close(inside)
    with os.fdopen(_regular(descriptor, path), "rb") as file:
        _check(os.fstat(file.fileno()), path, is_last=True)
        yield file


def _open_in(folder: int, path: Path, flags: int) -> int:
    """What has the path's last name in that open folder; an error names the whole path."""
    try:
        return os.open(path.name, flags, dir_fd=folder)
    except OSError as error:
        error.filename = str(path)
        raise


def _regular(descriptor: int, path: Path) -> int:
    """The same, unless it is a folder, a pipe or a device."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def _open(folder: Path, *, make: bool = False) -> int:
    """The folder, after every folder on the way to it was looked at, and made if it has to be."""
    current = os.open("/", _FOLDER)
    path = Path("/")
    names = folder.absolute().parts[1:]
    try:
        _check(os.fstat(current), path, is_last=not names)
        for at, name in enumerate(names, start=1):
            path /= name
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=current)
            below = _open_in(current, path, _FOLDER)
            os.close(current)
            current = below
            _check(os.fstat(current), path, is_last=at == len(names))
    except BaseException:
        os.close(current)
        raise
    return current


def _check(found: os.stat_result, path: Path, *, is_last: bool) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise Unguarded(f"{path} belongs to user {found.st_uid}, who could put anything there")
    # in a sticky folder, such as /tmp, nobody renames what others own
    is_sticky = bool(found.st_mode & stat.S_ISVTX) and not is_last
    if found.st_mode & _WRITABLE_BY_OTHERS and not is_sticky:
        raise Unguarded(f"{path} can be written to by other users; remove that right with chmod go-w")
