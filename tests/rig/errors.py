"""What a rig may raise: a part this machine cannot run, or a part that broke."""

from __future__ import annotations

import errno
from dataclasses import dataclass

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


def of_full_disk(error: OSError) -> Unavailable | None:
    """What to do about it, if the error is that nothing more can be written."""
    if error.errno not in _FULL:
        return None
    where = f"{error.filename} cannot be written" if error.filename else "something cannot be written"
    return Unavailable("the disk", f"{where}: {error.strerror}", FREE_SPACE)
