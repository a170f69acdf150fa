"""When a report is written: at once, but never more than six times a minute, and not at all for nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedkit.model.api.schedextnode import SchedExtNodeStatus
from schedkit.model.node.report import is_same_report

WRITES, PER_S = 6, 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """What was written, and when; seconds are of a clock that only grows."""

    written: SchedExtNodeStatus | None = None  # what the API server has; None: nothing, or it is not known
    attempts: tuple[float, ...] = ()  # the last ones, the newest last
    retry_at: float = 0.0  # not before, because the last attempt failed
    wanted_since: float | None = None  # since when something is unsent that the limit does not hold back


def next_write(pace: Pace, status: SchedExtNodeStatus, now: float) -> float | None:
    """When to write what is wanted; None: it is written already."""
    if is_same_report(pace.written, status):
        return None
    return max(_allowed(pace, now), pace.retry_at)


def _allowed(pace: Pace, now: float) -> float:
    """When the limit lets something through."""
    is_full = len(pace.attempts) >= WRITES
    return max(now, pace.attempts[-WRITES] + PER_S) if is_full else now


def wanted(pace: Pace, status: SchedExtNodeStatus, now: float) -> Pace:
    """Something is to be written; what the limit holds back is not overdue."""
    if is_same_report(pace.written, status):
        return replace(pace, wanted_since=None)
    if pace.wanted_since is not None:
        return pace
    return replace(pace, wanted_since=_allowed(pace, now))


def attempted(pace: Pace, now: float) -> Pace:
    """A write was begun, whatever comes of it."""
    return replace(pace, attempts=(*pace.attempts, now)[-WRITES:])


def succeeded(pace: Pace, written: SchedExtNodeStatus) -> Pace:
    """The API server has it."""
    return replace(pace, written=written, retry_at=0.0, wanted_since=None)


def failed(pace: Pace, now: float, *, retry_after_s: float) -> Pace:
    """The API server does not have it, or its answer was lost."""
    return replace(pace, retry_at=now + retry_after_s)


def forgotten(pace: Pace) -> Pace:
    """What the API server has is not what was written: write anew."""
    return replace(pace, written=None, wanted_since=None)


def is_overdue(pace: Pace, status: SchedExtNodeStatus, now: float, *, patience_s: float) -> bool:
    """Whether something is unsent for too long, and not because of the limit."""
    if is_same_report(pace.written, status) or pace.wanted_since is None:
        return False
    return now - pace.wanted_since > patience_s
