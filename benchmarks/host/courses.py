"""From a command to an attached scheduler, and from one scheduler to the next, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.host.kernellog import ATTACHED, DETACHED, Record, moment

BEGUN, CALLED, ENDED = (f"bench-host: {what}" for what in ("begun", "called", "ended"))
PODMAN, SCHEDCTL = "podman", "schedctl"


@dataclass(frozen=True, slots=True)
class Attachment:
    """One scheduler, from the command to its end, in seconds."""

    who: str
    starting_s: float  # interpreter and imports, up to the first call to Podman; 0: they are one program
    attaching_s: float  # from there until the kernel says `enabled`
    whole_s: float  # until the command has ended


@dataclass(frozen=True, slots=True)
class Gap:
    """One scheduler after another."""

    who: str
    gap_s: float  # how long the kernel ran its own scheduler
    whole_s: float


@dataclass(frozen=True, slots=True)
class Courses:
    """All rounds in the virtual machine."""

    kernel: str = ""  # empty: none was booted
    attachments: Sequence[Attachment] = ()
    gaps: Sequence[Gap] = ()


def attachment(who: str, log: Sequence[Record], *, after: int) -> Attachment:
    """Read it from the kernel's log; Podman's own command is its first call to itself."""
    begun, ended, attached = (moment(log, what, after=after).at_s for what in (BEGUN, ENDED, ATTACHED))
    called = moment(log, CALLED, after=after).at_s if who == SCHEDCTL else begun
    return Attachment(who, called - begun, attached - called, ended - begun)


def gap(who: str, log: Sequence[Record], *, after: int) -> Gap:
    """Read it from the kernel's log."""
    begun, ended = (moment(log, what, after=after).at_s for what in (BEGUN, ENDED))
    detached = moment(log, DETACHED, after=after)
    attached = moment(log, ATTACHED, after=detached.number)
    return Gap(who, attached.at_s - detached.at_s, ended - begun)
