"""When a report is written: at once, but never more than six times a minute, and not at all for nothing.

After a failure a write waits, longer each time, so that thousands of agents do not come at once when an API
server is back. An eject that is new does not wait for the retry: one of the six is kept for it then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedkit.model.api.schedextnode import SchedExtNodeStatus
from schedkit.model.node.eject_counts import new_ejects
from schedkit.model.node.report import is_same_report

WRITES, PER_S = 6, 60.0
# short enough that a report is there within half a minute after an outage
_RETRY_S, _MAX_RETRY_S = 1.0, 20.0
_MAX_ASKED_S = 60.0  # a server that asks for more patience does not get it
_LOOKED_BEFORE_S = 10.0  # how old a report may be when it is written


@dataclass(frozen=True, slots=True)
class Pace:
    """What was written, and when; seconds are of a clock that only grows."""

    written: SchedExtNodeStatus | None = None  # what the API server has; None: nothing, or it is not known
    tried: SchedExtNodeStatus | None = None  # the last that was sent, whatever came of it
    attempts: tuple[float, ...] = ()  # the last ones, the newest last
    retry_at: float = 0.0  # not before, because the last attempt failed
    wanted_since: float | None = None  # since when something is unsent that the limit does not hold back


def next_write(pace: Pace, status: SchedExtNodeStatus, now: float) -> float | None:
    """When to write what is wanted; None: it is written already."""
    if is_same_report(pace.written, status):
        return None
    if not pace.retry_at or _tells_new_eject(pace, status):
        return _allowed(pace, now)
    return max(_allowed(pace, now, writes=WRITES - 1), pace.retry_at)


def _tells_new_eject(pace: Pace, status: SchedExtNodeStatus) -> bool:
    """Whether it says more than what was sent last; at an agent's start nobody knows what was."""
    return pace.tried is not None and bool(new_ejects(pace.tried.exits, status.exits))


def _allowed(pace: Pace, now: float, *, writes: int = WRITES) -> float:
    """When the limit lets something through."""
    is_full = len(pace.attempts) >= writes
    return max(now, pace.attempts[-writes] + PER_S) if is_full else now


def resumed(found: SchedExtNodeStatus, age_s: float, now: float) -> Pace:
    """An earlier agent wrote that `age_s` ago, and may have used up all six writes of that minute."""
    written_at = now - max(0.0, age_s - _LOOKED_BEFORE_S)
    was_just_now = age_s >= 0 and now - written_at < PER_S
    return Pace(written=found, attempts=(written_at,) * WRITES if was_just_now else ())


def wanted(pace: Pace, status: SchedExtNodeStatus, now: float) -> Pace:
    """Something is to be written; what the limit holds back is not overdue."""
    if is_same_report(pace.written, status):
        return replace(pace, wanted_since=None)
    if pace.wanted_since is not None:
        return pace
    return replace(pace, wanted_since=_allowed(pace, now))


def attempted(pace: Pace, status: SchedExtNodeStatus, now: float) -> Pace:
    """A write was begun, whatever comes of it."""
    return replace(pace, tried=status, attempts=(*pace.attempts, now)[-WRITES:])


def succeeded(pace: Pace, written: SchedExtNodeStatus) -> Pace:
    """The API server has it."""
    return replace(pace, written=written, retry_at=0.0, wanted_since=None)


def failed(pace: Pace, now: float, *, retry_after_s: float) -> Pace:
    """The API server does not have it, or its answer was lost."""
    return replace(pace, retry_at=now + retry_after_s)


def patience_s(failures: int, asked_s: float | None, share: float) -> float:
    """How long to wait after so many failures; `share`, from 0 to 1, is another for each agent each time."""
    retry_s = min(_MAX_RETRY_S, _RETRY_S * float(1 << min(failures, 10))) * (0.4 + 0.8 * share)
    return max(retry_s, min(asked_s or 0.0, _MAX_ASKED_S) * (1 + 0.2 * share))


def forgotten(pace: Pace) -> Pace:
    """What the API server has is not what was written: write anew."""
    return replace(pace, written=None, wanted_since=None)


def is_overdue(pace: Pace, status: SchedExtNodeStatus, now: float, *, patience_s: float) -> bool:
    """Whether something is unsent for too long, and not because of the limit."""
    if is_same_report(pace.written, status) or pace.wanted_since is None:
        return False
    return now - pace.wanted_since > patience_s
