"""When reports are written: at once, at most six times a minute, and not at all for nothing."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.model.api.schedextnode import SchedExtNodeStatus
from schedkit.model.node import pacing
from schedkit.model.node.pacing import PER_S, WRITES, Pace
from schedkit.model.node.report import is_same_report

PATIENCE_S = 10.0


def status(number: int, *, at: int = 0) -> SchedExtNodeStatus:
    return SchedExtNodeStatus(
        enable_seq=number, reported_at=dt.datetime(2026, 11, 18, tzinfo=dt.UTC) + dt.timedelta(seconds=at)
    )


@dataclass
class Writer:
    """Does what the pace says, on a clock of its own."""

    pace: Pace = field(default_factory=Pace)
    now: float = 1000.0
    wanted: SchedExtNodeStatus | None = None
    attempts: list[tuple[float, int | None]] = field(default_factory=list)
    failing_s: float | None = None  # how long a refused write has to wait; None: writes succeed
    overdue: list[float] = field(default_factory=list)

    def want(self, wanted: SchedExtNodeStatus) -> None:
        self.wanted = wanted
        self.pace = pacing.wanted(self.pace, wanted, self.now)
        self.pass_time(0)

    def pass_time(self, seconds: float) -> None:
        """Every write that is due until then is attempted when it is due."""
        until = self.now + seconds
        while self.wanted and (due := pacing.next_write(self.pace, self.wanted, self.now)) is not None:
            assert due >= self.now
            if due > until:
                break
            self.now = due
            self._look()
            self._attempt(self.wanted)
        self.now = until
        self._look()

    def _attempt(self, wanted: SchedExtNodeStatus) -> None:
        assert not is_same_report(self.pace.written, wanted)
        self.attempts.append((self.now, wanted.enable_seq))
        self.pace = pacing.attempted(self.pace, self.now)
        if self.failing_s is None:
            self.pace = pacing.succeeded(self.pace, wanted)
        else:
            self.pace = pacing.failed(self.pace, self.now, retry_after_s=self.failing_s)

    def forget(self) -> None:
        """Somebody deletes the report, and the writer sees it."""
        self.pace = pacing.forgotten(self.pace)
        if self.wanted:
            self.want(self.wanted)

    def _look(self) -> None:
        if self.wanted and pacing.is_overdue(self.pace, self.wanted, self.now, patience_s=PATIENCE_S):
            self.overdue.append(self.now)


def test_the_first_change_is_written_at_once() -> None:
    writer = Writer()

    writer.want(status(1))

    assert writer.attempts == [(1000.0, 1)]


def test_nothing_is_written_when_nothing_changed_but_the_time() -> None:
    writer = Writer()
    for second in range(600):
        writer.want(status(1, at=second))
        writer.pass_time(1)

    assert len(writer.attempts) == 1


def test_a_burst_is_written_six_times_and_then_as_soon_as_the_limit_lets_it_through() -> None:
    writer = Writer()
    for number in range(20):
        writer.want(status(number))
        writer.pass_time(1)

    assert [number for _, number in writer.attempts] == [0, 1, 2, 3, 4, 5]

    writer.pass_time(100)

    assert writer.attempts[6:] == [(1060.0, 19)]
    assert writer.overdue == []


def test_a_refused_write_is_repeated_when_it_may_be() -> None:
    writer = Writer(failing_s=7)
    writer.want(status(1))
    writer.pass_time(6)
    assert len(writer.attempts) == 1

    writer.failing_s = None
    writer.pass_time(60)

    assert writer.attempts == [(1000.0, 1), (1007.0, 1)]


def test_what_cannot_be_written_for_long_is_overdue_until_it_is() -> None:
    writer = Writer(failing_s=5)
    writer.want(status(1))
    writer.pass_time(PATIENCE_S)
    assert writer.overdue == []
    writer.pass_time(1)
    assert writer.overdue != []
    writer.failing_s = None
    writer.pass_time(60)
    writer.overdue.clear()

    writer.pass_time(60)

    assert writer.overdue == []


def test_newer_news_do_not_make_older_ones_less_overdue() -> None:
    writer = Writer(failing_s=5)
    for number in range(15):
        writer.want(status(number))
        writer.pass_time(1)

    assert writer.overdue != []


def test_what_went_back_to_what_is_written_is_not_overdue_nor_is_what_comes_long_after() -> None:
    writer = Writer()
    writer.want(status(1))
    writer.failing_s = 5
    writer.want(status(2))
    writer.want(status(1))
    writer.pass_time(1000)
    writer.want(status(3))

    writer.pass_time(PATIENCE_S)

    assert writer.overdue == []


def test_a_report_that_somebody_deleted_is_written_anew_and_the_limit_is_no_reason_to_be_overdue() -> None:
    writer = Writer()
    for number in range(6):
        writer.want(status(number))

    writer.forget()
    writer.pass_time(100)

    assert writer.attempts[6:] == [(1060.0, 5)]
    assert writer.overdue == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.integers(0, 3)),
        st.tuples(st.just("pass"), st.floats(0, 90)),
        st.tuples(st.just("forget"), st.none()),
        st.tuples(st.just("fail"), st.none() | st.floats(0, 70)),
    ),
    max_size=60,
)


def play(writer: Writer, steps: list[tuple[str, float | None]], *, can_fail: bool) -> None:
    for word, value in steps:
        match word:
            case "want":
                writer.want(status(int(value or 0)))
            case "pass":
                writer.pass_time(value or 0)
            case "forget":
                writer.forget()
            case "fail" if can_fail:
                writer.failing_s = value


@given(steps=STEPS)
def test_whatever_happens_there_are_never_more_than_six_attempts_in_a_minute(
    steps: list[tuple[str, float | None]],
) -> None:
    writer = Writer()
    play(writer, steps, can_fail=True)

    times = [at for at, _ in writer.attempts]
    for first, seventh in zip(times, times[WRITES:], strict=False):
        assert seventh - first >= PER_S - 1e-6


@given(steps=STEPS)
def test_whatever_happens_the_last_that_was_wanted_is_written_in_the_end_and_then_nothing(
    steps: list[tuple[str, float | None]],
) -> None:
    writer = Writer()
    play(writer, steps, can_fail=True)
    writer.want(status(99))
    writer.failing_s = None

    writer.pass_time(200)

    assert is_same_report(writer.pace.written, status(99))
    assert writer.attempts[-1][1] == 99
    count = len(writer.attempts)
    writer.pass_time(10_000)
    assert len(writer.attempts) == count


@given(steps=STEPS)
def test_the_limit_alone_never_makes_a_report_overdue(steps: list[tuple[str, float | None]]) -> None:
    writer = Writer()
    play(writer, steps, can_fail=False)
    writer.pass_time(200)

    assert writer.overdue == []


@pytest.mark.parametrize("number", range(1, 7))
def test_every_write_of_a_quiet_minute_is_immediate(number: int) -> None:
    writer = Writer()
    for each in range(number):
        writer.want(status(each))

    assert [at for at, _ in writer.attempts] == [1000.0] * number
