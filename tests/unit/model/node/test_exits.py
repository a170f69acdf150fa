"""The ends of schedulers in a report: counted, bounded, and told once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.model.api.schedextnode import MAX_EXITS, NodeExit, NodeOwner, NodeOwnerKind, SchedExtNodeStatus
from schedkit.model.kernel.log import Exit, ExitKind
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.model.node.exits import ended_at_least, task_of, untold, with_exit

AT = dt.datetime(2026, 11, 18, 9, 0, 0, tzinfo=dt.UTC)
STALLED = "victim[458] failed to run for 2.044s"


def end(
    ops: str = "mini", kind: ExitKind = ExitKind.ERROR_STALL, message: str = STALLED, time_us: int = 1
) -> Exit:
    return Exit(ops, kind, "runnable task stall", message, seq=time_us, time_us=time_us)


def later(seconds: int) -> dt.datetime:
    return AT + dt.timedelta(seconds=seconds)


def reported(ends: Sequence[Exit]) -> tuple[NodeExit, ...]:
    exits: tuple[NodeExit, ...] = ()
    for each in ends:
        exits = with_exit(exits, each, AT)
    return exits


def test_an_end_is_reported_with_the_kernels_words_and_the_task() -> None:
    assert with_exit((), end(time_us=45_000_000), AT) == (
        NodeExit(
            ops="mini",
            kind=1026,
            reason="runnable task stall",
            message=STALLED,
            task="victim[458]",
            count=1,
            first_time=AT,
            time=AT,
            log_time=45_000_000,
        ),
    )


def test_the_same_end_again_is_counted_with_its_first_and_its_last_time() -> None:
    exits: tuple[NodeExit, ...] = ()
    for second in range(3):
        exits = with_exit(exits, end(message=f"words {second}", time_us=second + 1), later(second))

    (only,) = exits
    assert (only.count, only.first_time, only.time) == (3, AT, later(2))
    assert (only.message, only.log_time) == ("words 2", 3)


@pytest.mark.parametrize(
    "other", [end(ops="other"), end(kind=ExitKind.SYSRQ)], ids=["of another", "of another kind"]
)
def test_an_end_of_another_kind_is_an_entry_of_its_own(other: Exit) -> None:
    exits = reported([end(), other, end()])

    assert [each.count for each in exits] == [1, 1, 1]


def test_the_last_ends_are_kept_the_newest_last() -> None:
    exits = reported([end(ops=f"ops{number}") for number in range(20)])

    assert [each.ops for each in exits] == [f"ops{number}" for number in range(20 - MAX_EXITS, 20)]


def test_what_a_node_says_has_no_control_characters_and_an_end() -> None:
    (entry,) = with_exit((), end(ops="a\x1b[31mb" * 99, message="x\n\x07\u202ey" * 999), AT)

    assert len(entry.ops) == 128
    assert len(entry.message) == 512
    assert (entry.ops + entry.message).isprintable()


@pytest.mark.parametrize(
    ("ended", "task"),
    [
        pytest.param(end(), "victim[458]", id="a stall names its task"),
        pytest.param(
            end(message="kworker/0:1 x[9] failed to run for 30.1s"), "kworker/0:1 x[9]", id="with spaces"
        ),
        pytest.param(
            end(message="vic\ntim[458] failed to run for 2.0s"), "vic tim[458]", id="with a line end"
        ),
        pytest.param(end(message="nobody did it"), "", id="other words name none"),
        pytest.param(end(kind=ExitKind.ERROR_BPF), "", id="a scheduler's own words are not believed"),
        pytest.param(end(message="x" * 99 + "[1] failed to run for 2s"), "", id="no task has such a name"),
    ],
)
def test_the_task_is_the_kernels_word(ended: Exit, task: str) -> None:
    assert task_of(ended) == task


# After an earlier agent


def test_what_was_told_is_known_by_its_time() -> None:
    told = reported([end(time_us=10), end(time_us=20)])

    assert list(untold([end(time_us=20), end(time_us=30)], told)) == [end(time_us=30)]


def test_a_log_that_has_forgotten_what_was_told_has_all_of_it_new() -> None:
    new = [end(time_us=30), end(time_us=40)]

    assert list(untold(new, reported([end(time_us=10)]))) == new


def test_without_an_earlier_report_all_of_it_is_new() -> None:
    assert list(untold([end(time_us=0)], ())) == [end(time_us=0)]


@given(data=st.data())
def test_without_times_what_was_told_is_known_by_its_order(data: st.DataObject) -> None:
    """As long as the ends differ, whatever of them log and report have forgotten."""
    ends = [end(ops=f"ops{number}", time_us=0) for number in range(data.draw(st.integers(1, 30)))]
    told = data.draw(st.integers(1, len(ends)))
    forgotten = data.draw(st.integers(0, told))

    logged, report = ends[forgotten:], reported(ends[:told])
    # the kernel does not count schedulers that could not be attached
    counted = data.draw(st.none() | st.integers(0, len(ends) - told))

    assert list(untold(logged, report, at_least=counted)) == ends[told:]


def test_without_times_equal_ends_are_told_once_each() -> None:
    same = end(time_us=0)

    assert len(untold([same] * 5, reported([same] * 3))) == 2
    assert len(untold([same] * 3, reported([same] * 3))) == 0


@pytest.mark.parametrize("new", [0, 1, 4, 9])
@pytest.mark.parametrize("forgotten", [0, 3], ids=["a whole log", "a log without its beginning"])
def test_without_times_equal_ends_of_more_pods_than_a_report_holds_are_told_once_each(
    new: int, forgotten: int
) -> None:
    """The report has forgotten the first of them: the kernel's own count says how many it has not told."""
    told: tuple[NodeExit, ...] = ()
    for number in range(MAX_EXITS + 4):
        whose = NodeOwner(kind=NodeOwnerKind.POD, pod_uid=f"pod-{number}")
        told = with_exit(told, end(time_us=0), AT, whose)
    logged = [end(time_us=0)] * (MAX_EXITS + 4 + new - forgotten)

    assert len(untold(logged, told, at_least=new)) == new


def test_a_count_that_is_one_too_high_tells_no_other_end_again() -> None:
    """The kernel says `enabled` a moment before it counts."""
    ends = [end(ops=f"ops{number}", time_us=0) for number in range(MAX_EXITS + 2)]

    assert list(untold(ends, reported(ends), at_least=1)) == []


@pytest.mark.parametrize(
    ("before", "now", "ended"),
    [
        pytest.param(("enabled", 5), (State.ENABLED, 5), 0, id="the same is attached"),
        pytest.param(("enabled", 5), (State.DISABLED, 5), 1, id="it has ended"),
        pytest.param(("enabled", 5), (State.ENABLED, 7), 2, id="it and another have"),
        pytest.param(("disabled", 5), (State.DISABLED, 7), 2, id="two came and went"),
        pytest.param(("disabling", 5), (State.ENABLING, 5), 1, id="it was on its way out"),
        pytest.param(("disabled", 5), (State.DISABLING, 6), 0, id="it is not out yet"),
        pytest.param(("disabled", 5), (State.DISABLED, 3), 0, id="a count that falls proves nothing"),
        pytest.param(("disabled", None), (State.DISABLED, 3), None, id="nobody counted before"),
        pytest.param(("disabled", 5), (State.UNKNOWN, None), None, id="nobody counts now"),
    ],
)
def test_the_kernels_count_says_how_many_have_ended_since_a_report(
    before: tuple[str, int | None], now: tuple[State, int | None], ended: int | None
) -> None:
    report = SchedExtNodeStatus(state=before[0], enable_seq=before[1])

    assert ended_at_least(report, KernelState(now[0], enable_seq=now[1])) == ended


def test_ends_of_different_owners_are_counted_apart() -> None:
    one, other = (NodeOwner(kind=NodeOwnerKind.POD, pod_uid=uid) for uid in ("one", "other"))
    exits: tuple[NodeExit, ...] = ()
    for whose in (one, one, other, NodeOwner()):
        exits = with_exit(exits, end(), AT, whose)

    assert [(each.owner, each.pod_uid, each.count) for each in exits] == [
        ("Pod", "one", 2),
        ("Pod", "other", 1),
        ("", "", 1),
    ]
