"""Reading small files that may be absent, forbidden, or gone halfway."""

from __future__ import annotations

from pathlib import Path

_LIMIT = 1 << 20


def text(path: Path, *, limit: int = _LIMIT) -> str | None:
    """The file's text without surrounding white space; None if it cannot be read."""
    content = data(path, limit=limit)
    return None if content is None else content.decode(errors="replace").strip()


def data(path: Path, *, limit: int = _LIMIT) -> bytes | None:
    """At most `limit` bytes of the file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except (OSError, ValueError):  # ValueError: a name with a zero byte in it
        return None
