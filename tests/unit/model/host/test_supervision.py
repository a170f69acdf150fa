"""Whether somebody wanted a scheduler's end is decided by the kernel's word first, then by the program's."""

from __future__ import annotations

import pytest

from schedkit.model.host.actions import Action, AwaitRelease, Discard, Eject, EndProcess, Plan, Stop
from schedkit.model.host.confirmation import Course
from schedkit.model.host.containers import Container, ContainerState
from schedkit.model.host.containers import Exit as ProgramExit
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.release import outlives
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.supervision import (
    PATIENCE_S,
    POLL_S,
    QUIET_S,
    RUNTIME_PATIENCE_S,
    Ended,
    Ending,
    Glance,
    Look,
    Wait,
    Watched,
    await_runtimes,
    begin,
    explain_end,
    find_left,
    hear,
    is_answered,
    judge_stay,
    look_again,
    may_be_attached,
    plan_end,
    plan_removal,
    plan_rest,
    step,
)
from schedkit.model.kernel.log import Exit, ExitKind, LogReading
from schedkit.model.kernel.sched_ext import KernelState, State

OURS = Container("ab" * 32, "fifo", "podman", ContainerState.RUNNING, 7)
INSIDE = Process(7, command="scx_fifo")
ENABLED, DISABLED = KernelState(State.ENABLED, "fifo"), KernelState(State.DISABLED)


def ending(
    kind: ExitKind | None = ExitKind.UNREG, code: int | None = 0, course: Course = Course.ENDED
) -> Ending:
    words = "" if code is None else str(ProgramExit(code))
    return Ending("fifo", course, kind, "rig_fifo: as the kernel says it", code, "bye", words)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(ending(), id="its program let go, and ended well"),
        pytest.param(ending(code=143), id="SIGTERM ended it"),
        pytest.param(ending(code=None)._replace(is_gone=True), id="somebody removed its container"),
        pytest.param(ending(kind=None), id="the kernel's log is not readable, and its program ended well"),
    ],
)
def test_an_end_is_in_order(end: Ending) -> None:
    assert end.is_in_order


@pytest.mark.parametrize(
    ("end", "what"),
    [
        pytest.param(ending(code=1), "fifo has ended: exit code 1", id="its program failed"),
        pytest.param(ending(code=137), "fifo has ended: killed by SIGKILL", id="it was killed"),
        pytest.param(
            ending(code=None),
            "fifo has ended: its runtime does not say how",
            id="its container is there, and nobody knows how it ended",
        ),
        pytest.param(
            ending(kind=ExitKind.SYSRQ),
            "fifo was ejected by hand, with SysRq-S",
            id="a human ejected it, and its program was content with that",
        ),
        pytest.param(
            ending(kind=ExitKind.ERROR_STALL),
            "fifo was ejected by the kernel",
            id="the watchdog ejected it, and its program was content with that",
        ),
        pytest.param(
            ending(kind=ExitKind.UNKNOWN), "fifo was ejected by the kernel", id="a reason of a later kernel"
        ),
        pytest.param(
            ending(code=None, course=Course.LATE),
            "fifo was ejected by the kernel",
            id="its program goes on without the kernel",
        ),
    ],
)
def test_an_end_is_a_failure_and_told_with_the_words_of_kernel_and_program(end: Ending, what: str) -> None:
    assert not end.is_in_order

    told = explain_end(end)

    assert told.what == what
    assert (
        told.why == "the kernel says: rig_fifo: as the kernel says it; the end of the scheduler's output: bye"
    )
    assert "it is not started again automatically" in told.remedy


@pytest.mark.parametrize(
    ("hold", "ejection"), [(Hold.LINK, ()), (Hold.MAP, (Eject(),))], ids=["ends with it", "outlives it"]
)
def test_what_would_outlive_its_program_is_ejected(hold: Hold, ejection: tuple[Action, ...]) -> None:
    seen = Snapshot(ENABLED, Proof(hold, INSIDE))

    assert plan_end(seen, OURS) == (Stop(OURS), AwaitRelease(OURS), *ejection, Discard(OURS))


def test_what_has_ended_is_only_removed() -> None:
    ended = Container("ab" * 32, "fifo", "podman", ContainerState.EXITED)

    assert plan_end(Snapshot(DISABLED), ended) == (Discard(ended),)


ENDED = OURS._replace(state=ContainerState.EXITED, pid=None)
PROVED = Snapshot(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.MAP, INSIDE, map_id=3))
LEFT = Snapshot(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.NOBODY, map_id=3))
STRAY = Snapshot(ENABLED, Proof(Hold.LINK, Process(9, cgroups=(f"/libpod-{OURS.id}.scope",))))


def test_what_an_ended_container_still_has_in_the_kernel_is_ended_before_its_record_is_gone() -> None:
    stray = STRAY.proof.process
    assert stray

    assert plan_end(STRAY, ENDED) == (Stop(ENDED), EndProcess(stray), AwaitRelease(ENDED), Discard(ENDED))


@pytest.mark.parametrize(
    ("proved", "is_ejected"),
    [
        pytest.param(PROVED, True, id="the attachment that was proved"),
        pytest.param(
            PROVED._replace(kernel=KernelState(State.ENABLED, "fifo", 4)), False, id="an earlier one"
        ),
        pytest.param(None, False, id="nothing was ever proved"),
    ],
)
def test_what_has_outlived_its_program_is_ejected_if_it_was_proved_to_be_ours(
    proved: Snapshot | None, is_ejected: bool
) -> None:
    ejection = (Eject(),) if is_ejected else ()

    assert plan_end(LEFT, ENDED, proved) == (*ejection, Discard(ENDED))
    assert plan_end(LEFT, OURS, proved) == (Stop(OURS), AwaitRelease(OURS), *ejection, Discard(OURS))


def test_a_container_that_its_runtime_does_not_have_is_not_removed_but_ended() -> None:
    watched = Watched(OURS, proved=PROVED)

    assert plan_removal(watched, LEFT, None, is_alive=False) == Plan((Eject(),))
    assert plan_removal(watched, LEFT, ENDED, is_alive=False) == Plan((Eject(), Discard(ENDED)))
    assert plan_removal(watched, PROVED, OURS, is_alive=True) == Plan(
        (Stop(OURS), AwaitRelease(OURS), Eject(), Discard(OURS))
    )


def test_what_shows_only_after_its_end_to_outlive_it_is_ejected_and_nothing_else() -> None:
    assert plan_rest(Watched(OURS, proved=PROVED), LEFT, is_alive=False) == Plan((Eject(),))
    assert plan_rest(Watched(OURS), LEFT, is_alive=False) == Plan(())
    assert plan_rest(Watched(OURS, proved=PROVED), Snapshot(DISABLED), is_alive=False) == Plan(())


def test_a_kernel_that_does_not_count_attachments_is_judged_by_the_map() -> None:
    uncounted = PROVED._replace(kernel=ENABLED)

    assert outlives(LEFT._replace(kernel=ENABLED), uncounted)
    assert not outlives(Snapshot(ENABLED, Proof(Hold.NOBODY, map_id=4)), uncounted)
    assert not outlives(Snapshot(ENABLED, Proof(Hold.NOBODY)), uncounted)


@pytest.mark.parametrize(
    ("seen", "proved", "what"),
    [
        pytest.param(STRAY, None, "the kernel still runs fifo from container fifo", id="a process of ours"),
        pytest.param(LEFT, PROVED, "the container is gone, but the kernel still runs fifo", id="no process"),
        pytest.param(LEFT, None, "the container is gone, but the kernel still runs fifo", id="perhaps ours"),
        pytest.param(
            LEFT,
            Snapshot(KernelState(State.ENABLED, "fifo", 4)),
            "the container is gone, but the kernel still runs fifo",
            id="attached again, perhaps by its program",
        ),
        pytest.param(LEFT, Snapshot(KernelState(State.ENABLED, "mine", 4)), "", id="of somebody else"),
        pytest.param(Snapshot(DISABLED), PROVED, "", id="nothing"),
    ],
)
def test_what_the_kernel_runs_on_is_told_if_it_may_be_ours(
    seen: Snapshot, proved: Snapshot | None, what: str
) -> None:
    left = find_left(seen, ENDED, proved)

    assert (left.what if left else "") == what


def test_an_end_that_left_its_scheduler_in_the_kernel_is_not_in_order() -> None:
    end = ending()._replace(left="the kernel still runs fifo: nobody holds it")

    assert not end.is_in_order
    assert explain_end(end).why.endswith("the kernel still runs fifo: nobody holds it")
    assert "schedctl reset" in explain_end(end).remedy


def test_a_scheduler_of_another_name_speaks_against_ours_though_nobody_knows_whose_it_is() -> None:
    theirs = Snapshot(KernelState(State.ENABLED, "humans_choice"), Proof(Hold.UNKNOWN))

    assert judge_stay(theirs, OURS, "fifo", is_alive=True, is_over=True) is Course.LATE
    assert judge_stay(theirs, OURS, "fifo", is_alive=True, is_over=False) is Course.WAITING
    assert judge_stay(theirs, OURS, None, is_alive=True, is_over=True) is Course.ATTACHED


IN_CONTAINERD = Snapshot(ENABLED, Proof(Hold.LINK, Process(7, cgroups=("/schedkit/scx_fifo",))))
BLIND = Snapshot(ENABLED, Proof(Hold.UNKNOWN))


@pytest.mark.parametrize(
    ("host", "is_enough"),
    [
        pytest.param(Snapshot(DISABLED), False, id="none answered"),
        pytest.param(
            IN_CONTAINERD._replace(containers=(), silent=("containerd",)), False, id="the other may have it"
        ),
        pytest.param(
            IN_CONTAINERD._replace(containers=(ENDED,), silent=("containerd",)),
            False,
            id="though one has ended",
        ),
        pytest.param(Snapshot(DISABLED, containers=(), silent=("podman",)), False, id="nothing there yet"),
        pytest.param(
            BLIND._replace(containers=(OURS,), silent=("containerd",)), True, id="waiting would prove no more"
        ),
        pytest.param(IN_CONTAINERD._replace(containers=()), True, id="all answered"),
        pytest.param(Snapshot(ENABLED, Proof(Hold.LINK, INSIDE), containers=(OURS,)), True, id="ours"),
        pytest.param(Snapshot(DISABLED, containers=(), silent=("containerd",)), True, id="one in no use"),
    ],
)
def test_a_runtime_that_may_have_what_is_attached_is_to_answer_first(host: Snapshot, is_enough: bool) -> None:
    assert is_answered(host, "podman") is is_enough


@pytest.mark.parametrize(
    ("seen", "is_alive", "course"),
    [
        pytest.param(Snapshot(ENABLED, Proof(Hold.LINK, INSIDE)), True, Course.ATTACHED, id="it is proved"),
        pytest.param(
            Snapshot(ENABLED, Proof(Hold.UNKNOWN)), True, Course.ATTACHED, id="nothing can be proved"
        ),
        pytest.param(Snapshot(ENABLED, Proof(Hold.UNKNOWN)), False, Course.ENDED, id="its program is gone"),
        pytest.param(Snapshot(DISABLED), True, Course.LATE, id="the kernel runs its own"),
        pytest.param(Snapshot(ENABLED, Proof(Hold.LINK, Process(99))), True, Course.TAKEN, id="a stranger's"),
        pytest.param(Snapshot(ENABLED, Proof(Hold.NOBODY)), True, Course.LATE, id="nobody's"),
    ],
)
def test_only_what_speaks_against_an_attachment_ends_it(
    seen: Snapshot, is_alive: bool, course: Course
) -> None:
    assert judge_stay(seen, OURS, is_alive=is_alive, is_over=True) is course
    assert may_be_attached(seen, OURS) is (course is Course.ATTACHED or not is_alive)


# The reducer

SEEN = PROVED._replace(proof=PROVED.proof._replace(hold=Hold.LINK))
WATCHED = Watched(OURS, ops="fifo", proved=SEEN)
FREE = Snapshot(KernelState(State.DISABLED, enable_seq=5))
AGAIN = SEEN._replace(kernel=KernelState(State.ENABLED, "fifo", 6))


def glance(seen: Snapshot, *, is_alive: bool = True, is_thorough: bool = True) -> Glance:
    return Glance(is_alive, seen.kernel, seen if is_thorough else None)


def test_as_long_as_the_attachment_that_was_proved_lasts_processes_are_left_alone() -> None:
    assert step(WATCHED, glance(SEEN, is_thorough=False), 0) == (WATCHED, Wait(QUIET_S))


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(glance(FREE, is_thorough=False), id="the kernel runs its own"),
        pytest.param(glance(AGAIN, is_thorough=False), id="it was attached again"),
        pytest.param(glance(SEEN, is_alive=False, is_thorough=False), id="its program has ended"),
    ],
)
def test_whatever_changes_is_a_reason_to_look_into_processes(seen: Glance) -> None:
    assert step(WATCHED, seen, 0) == (WATCHED, Look())


def test_what_is_attached_again_in_time_is_stayed_with_as_if_nothing_had_been() -> None:
    detached, first = step(WATCHED, glance(FREE), 100)
    still, second = step(detached, glance(FREE), 100 + PATIENCE_S - 1)
    back, third = step(still, glance(AGAIN), 100 + PATIENCE_S)

    assert (first, second, third) == (Wait(POLL_S), Wait(POLL_S), Wait(QUIET_S))
    assert (detached.detached_at, still.detached_at, back.detached_at) == (100, 100, None)
    assert back.proved == AGAIN


def test_what_is_not_attached_again_in_time_was_ejected() -> None:
    detached, _ = step(WATCHED, glance(FREE), 0)

    assert step(detached, glance(FREE), PATIENCE_S)[1] == Ended(Course.LATE)


def test_a_program_that_has_ended_is_not_waited_for() -> None:
    assert step(WATCHED, glance(FREE, is_alive=False), 0)[1] == Ended(Course.ENDED)


@pytest.mark.parametrize(
    ("found", "seen", "is_alive", "is_back"),
    [
        pytest.param(OURS._replace(pid=8), AGAIN._replace(proof=Proof(Hold.LINK, Process(8))), True, True),
        pytest.param(OURS, FREE, True, False),
        pytest.param(ENDED, FREE, False, False),
    ],
    ids=["brought back", "it lives without the kernel", "it has ended"],
)
def test_what_a_failed_switch_has_brought_back_is_stayed_with(
    found: Container, seen: Snapshot, is_alive: bool, is_back: bool
) -> None:
    again, answer = look_again(WATCHED._replace(detached_at=1), found, seen, is_alive=is_alive)

    assert answer is is_back
    assert again.container == (found if is_back else OURS)


def test_what_a_look_under_the_lock_proves_counts_also_if_it_is_not_back() -> None:
    again, is_back = look_again(WATCHED._replace(proved=None), ENDED, STRAY, is_alive=False)

    assert (is_back, again.proved) == (False, STRAY)


@pytest.mark.parametrize(
    ("seen", "waited_s", "wait"),
    [
        pytest.param(Snapshot(DISABLED), 0, Wait(POLL_S), id="none has answered yet"),
        pytest.param(Snapshot(DISABLED), RUNTIME_PATIENCE_S + 1, None, id="none will"),
        pytest.param(
            IN_CONTAINERD._replace(containers=(), silent=("containerd",)),
            RUNTIME_PATIENCE_S + 1,
            Wait(QUIET_S),
            id="the one that may have what is attached is waited for without an end",
        ),
        pytest.param(Snapshot(DISABLED, containers=(OURS,)), 0, None, id="one has answered"),
    ],
)
def test_runtimes_are_waited_for(seen: Snapshot, waited_s: float, wait: Wait | None) -> None:
    assert await_runtimes(seen, "podman", waited_s=waited_s) == wait


STALLED = Exit("fifo", ExitKind.ERROR_STALL, "runnable task stall", "", seq=2, time_us=45_000_000)


@pytest.mark.parametrize(
    ("began_us", "kind"),
    [(40_000_000, ExitKind.ERROR_STALL), (46_000_000, None)],
    ids=["since", "before"],
)
def test_what_the_kernel_said_before_a_container_began_is_not_about_it(
    began_us: int, kind: ExitKind | None
) -> None:
    watched = begin(Snapshot(DISABLED), ENDED, log_seq=7, began_us=began_us)

    ended = hear(watched, Course.ENDED, LogReading((STALLED,)))

    assert (watched.log_seq, ended.kind, bool(ended.kernel_words)) == (-1, kind, kind is not None)


def test_of_one_that_is_attached_only_later_words_of_the_kernel_are_heard() -> None:
    watched = begin(SEEN, OURS, log_seq=7, began_us=0)

    assert (watched.log_seq, watched.since_us, watched.ops, watched.proved) == (7, None, "fifo", SEEN)


def test_an_end_whose_container_could_not_be_removed_is_told_with_the_kernels_words_and_what_is_left() -> (
    None
):
    end = ending()._replace(trouble="Podman does not answer")

    told = explain_end(end)

    assert not end.is_in_order
    assert told.why.startswith("the kernel says: rig_fifo")
    assert told.why.endswith("its container may still be there: Podman does not answer")
    assert "schedctl reset" in told.remedy
