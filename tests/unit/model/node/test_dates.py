"""Dates of what the log tells: never in the future, never before boot, and near the look that showed it."""

from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from schedkit.model.node.dates import dated

NOW = dt.datetime(2026, 11, 18, 12, 0, 0, tzinfo=dt.UTC)
YEAR_S = 365 * 86_400


@given(
    uptime_s=st.floats(0, YEAR_S),
    log_s=st.floats(0, 2 * YEAR_S),
    looked_s_ago=st.none() | st.floats(-86_400, YEAR_S),
)
def test_no_date_is_in_the_future_or_before_boot(
    uptime_s: float, log_s: float, looked_s_ago: float | None
) -> None:
    """Whatever the clocks say, and also where somebody set this machine's clock back since the last look."""
    looked = None if looked_s_ago is None else NOW - dt.timedelta(seconds=looked_s_ago)

    found = dated(int(log_s * 1_000_000), NOW, uptime_s, not_before=looked)

    second = dt.timedelta(seconds=1)  # dates have no fractions
    assert NOW - dt.timedelta(seconds=uptime_s) - second <= found <= NOW
    if looked is not None:
        assert found > min(looked, NOW) - second


def test_where_the_clocks_agree_it_is_the_logs_time() -> None:
    looked = NOW - dt.timedelta(seconds=5)

    assert dated(997_000_000, NOW, 1000.0, not_before=looked) == NOW - dt.timedelta(seconds=3)
    assert dated(600_000_000, NOW, 1000.0) == NOW - dt.timedelta(seconds=400)


def test_a_log_without_times_is_of_now() -> None:
    assert dated(0, NOW, 1000.0, not_before=NOW - dt.timedelta(seconds=5)) == NOW
