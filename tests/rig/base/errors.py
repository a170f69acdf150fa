"""What a rig may raise: a part this machine cannot run, or a part that broke."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)
FREE_SPACE = (
    "free some, the whole cache takes 3 to 4 GB; or set XDG_CACHE_HOME, and TMPDIR, to folders elsewhere"
)


@dataclass
class Unavailable(Exception):
    """This machine cannot run a part. Tests turn it into a skip; CI turns the skip into a failure."""

    what: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}; {self.remedy}"


class RigError(Exception):
    """A part that should work here did not; the message carries the end of its log."""


def of_full_disk(error: OSError, likely: Path) -> Unavailable | None:
    """What to do about it, if the error is that nothing more can be written; few of them say where."""
    if error.errno not in _FULL:
        return None
    why = f"{error.filename or likely} cannot be written: {error.strerror}"
    return Unavailable("the disk", why, FREE_SPACE)
