"""When something in the kernel's log happened, by the clock of the wall."""

from __future__ import annotations

import datetime as dt


def dated(
    log_us: int, now: dt.datetime, uptime_s: float, *, not_before: dt.datetime | None = None
) -> dt.datetime:
    """The date of a line of the log; now, if the log has no times.

    The log counts by a clock of its own, which drifts away from all others: by seconds in a month. So what
    was not there at the last look (`not_before`) is dated between that look and this one. Only what is from
    before the first look depends on the drift. Nothing is in the future, or from before the boot.
    """
    age_s = max(0.0, uptime_s - log_us / 1_000_000) if log_us else 0.0
    computed = now - dt.timedelta(seconds=age_s)
    earliest = min(not_before, now) if not_before else computed
    return max(computed, earliest).replace(microsecond=0)
