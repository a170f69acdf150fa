"""What a rig may raise: a part this machine cannot run, or a part that broke."""

from __future__ import annotations

from dataclasses import dataclass


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
