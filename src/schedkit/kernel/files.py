"""Reading small files that may be absent, forbidden, or gone halfway."""

from __future__ import annotations

import errno
from pathlib import Path

_GONE = frozenset({errno.ENOENT, errno.ESRCH})  # of a process: it has ended
_LIMIT = 1 << 20


def text(path: Path, *, limit: int = _LIMIT) -> str | None:
    """The file's text without surrounding white space; None if it cannot be read."""
    content = data(path, limit=limit)
    return None if content is None else content.decode(errors="replace").strip()


def is_gone(error: OSError) -> bool:
    """Whether it means that a file or its process is no longer there, and not that we cannot look."""
    return error.errno in _GONE


def text_unless_gone(path: Path) -> str | None:
    """The file's text; None if it is no longer there, and any other trouble as an `OSError`."""
    try:
        with path.open("rb") as file:
            return file.read(_LIMIT).decode(errors="replace").strip()
    except OSError as error:
        if is_gone(error):
            return None
        raise


def data(path: Path, *, limit: int = _LIMIT) -> bytes | None:
    """At most `limit` bytes of the file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except (OSError, ValueError):  # ValueError: a name with a zero byte in it
        return None
