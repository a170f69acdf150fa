"""When reports are written: at once, at most six times a minute, and not at all for nothing."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.model.api.schedextnode import NodeExit, SchedExtNodeStatus
from schedkit.model.node import pacing
from schedkit.model.node.pacing import PER_S, WRITES, Pace
from schedkit.model.node.report import is_same_report

PATIENCE_S = 10.0


START = dt.datetime(2026, 11, 18, tzinfo=dt.UTC)


def status(number: int, *, at: float = 0, ejects: int = 0) -> SchedExtNodeStatus:
    exits = (NodeExit(ops="mini", kind=1026, count=ejects),) if ejects else ()
    return SchedExtNodeStatus(enable_seq=number, exits=exits, reported_at=START + dt.timedelta(seconds=at))


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
        self.pace = pacing.attempted(self.pace, wanted, self.now)
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


def test_a_new_eject_does_not_wait_for_a_retry_and_what_follows_does() -> None:
    writer = Writer(failing_s=20)
    writer.want(status(1))
    writer.pass_time(3)
    writer.want(status(2))  # no eject: it waits
    writer.want(status(2, ejects=1))
    writer.pass_time(3)
    writer.want(status(3, ejects=1))
    writer.pass_time(3)
    writer.want(status(3, ejects=2))

    assert [at for at, _ in writer.attempts] == [1000.0, 1003.0, 1009.0]


def test_retries_leave_one_write_of_a_minute_for_an_eject() -> None:
    writer = Writer(failing_s=1)
    writer.want(status(1))
    writer.pass_time(30)
    assert len(writer.attempts) == WRITES - 1

    writer.want(status(1, ejects=1))

    assert writer.attempts[-1][0] == 1030.0
    assert len(writer.attempts) == WRITES


def test_what_an_earlier_agent_wrote_is_not_written_again_and_counts_for_the_limit() -> None:
    writer = Writer(pace=pacing.resumed(status(1), age_s=30, now=1000.0))
    writer.want(status(1))
    assert writer.attempts == []

    writer.want(status(2))
    writer.pass_time(100)

    assert writer.attempts == [(1040.0, 2)]  # what is written may be from a look of ten seconds before
    assert writer.overdue == []


@pytest.mark.parametrize("age_s", [70, 86_400, -5], ids=["a minute ago", "a day ago", "by a clock set back"])
def test_what_an_earlier_agent_wrote_long_ago_holds_nothing_back(age_s: float) -> None:
    writer = Writer(pace=pacing.resumed(status(1), age_s=age_s, now=1000.0))

    writer.want(status(2))

    assert writer.attempts == [(1000.0, 2)]


@pytest.mark.parametrize("asked_s", [None, 2.0], ids=["nobody answered", "it asked for patience"])
def test_five_thousand_agents_do_not_come_at_once_when_an_api_server_is_back(asked_s: float | None) -> None:
    """All had news in the same second, and none got an answer for two minutes."""
    chance, outage_s = random.Random(7), 120.0
    came: Counter[int] = Counter()
    for _ in range(5000):
        at, failures = chance.random(), 0
        while at < outage_s:
            at += pacing.patience_s(failures, asked_s, chance.random())
            failures += 1
        came[int(at - outage_s)] += 1

    assert max(came) < 30  # right within half a minute
    assert max(came.values()) < 600


def test_nobody_waits_for_longer_than_a_server_may_ask() -> None:
    assert pacing.patience_s(50, None, 1.0) < 25
    assert 60 <= pacing.patience_s(0, 3600, 0.5) <= 72


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


@dataclass
class Node:
    """A kernel, the agents that follow each other on it, and what the API server has of them."""

    now: float = 1000.0
    kernel: tuple[int, int] = (0, 0)  # attachments, ejects
    answer: str = "yes"  # what becomes of a write: yes, no, or "lost": done, and nobody says so
    stored: SchedExtNodeStatus | None = None
    writes: list[float] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)

    def crash(self, seconds: float) -> None:
        """The next agent reads what is there, if it can, and otherwise waits until it can."""
        self.now += seconds
        self.pace = Pace()
        if self.stored and self.stored.reported_at:
            age_s = self.now - (self.stored.reported_at - START).total_seconds()
            self.pace = pacing.resumed(self.stored, age_s, self.now)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            wanted = status(self.kernel[0], at=self.now, ejects=self.kernel[1])
            self.pace = pacing.wanted(self.pace, wanted, self.now)
            due = pacing.next_write(self.pace, wanted, self.now)
            if due is not None and due <= self.now:
                self._write(wanted)
            self.now += 1 if due is None or due > self.now else 0.001

    def _write(self, wanted: SchedExtNodeStatus) -> None:
        self.pace = pacing.attempted(self.pace, wanted, self.now)
        if self.answer != "no":
            self.stored = wanted
            self.writes.append(self.now)
        if self.answer == "yes":
            self.pace = pacing.succeeded(self.pace, wanted)
        else:
            self.pace = pacing.failed(self.pace, self.now, retry_after_s=5)


LIVES = st.lists(
    st.one_of(
        st.tuples(st.just("attach"), st.none()),
        st.tuples(st.just("eject"), st.none()),
        st.tuples(st.just("crash"), st.floats(0, 90)),
        st.tuples(st.just("pass"), st.floats(0, 70)),
        st.tuples(st.just("api"), st.sampled_from(["yes", "no", "lost"])),
    ),
    max_size=40,
)


@given(steps=LIVES)
def test_whatever_kernel_agents_and_api_server_do_the_last_state_is_reported_in_few_writes(
    steps: list[tuple[str, object]],
) -> None:
    node = Node()
    for word, value in steps:
        match word, value:
            case "attach", _:
                node.kernel = (node.kernel[0] + 1, node.kernel[1])
            case "eject", _:
                node.kernel = (node.kernel[0], node.kernel[1] + 1)
            case "crash", float(seconds):
                node.crash(seconds)
            case "pass", float(seconds):
                node.pass_time(seconds)
            case "api", str(answer):
                node.answer = answer
        node.pass_time(0.5)
    node.answer = "yes"
    node.pass_time(150)

    assert node.stored is not None
    assert is_same_report(node.stored, status(node.kernel[0], ejects=node.kernel[1]))
    for first, seventh in zip(node.writes, node.writes[WRITES:], strict=False):
        assert seventh - first >= PER_S - 1e-6
