"""Whether somebody wanted a scheduler's end is decided by the kernel's word first, then by the program's."""

from __future__ import annotations

import pytest

from schedkit.model.host.actions import Action, AwaitRelease, Discard, Eject, EndProcess, Host, Known, Stop
from schedkit.model.host.attachment import Course, outlives
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.status import HostObservation
from schedkit.model.host.supervision import (
    Ending,
    explain_end,
    find_left,
    is_answered,
    judge_stay,
    may_be_attached,
    plan_end,
)
from schedkit.model.kernel.log import ExitKind
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.runtimes.containers import Exit

OURS = Known("podman", "ab" * 32, "fifo", is_running=True, pid=7)
INSIDE = Process(7, command="scx_fifo")
ENABLED, DISABLED = KernelState(State.ENABLED, "fifo"), KernelState(State.DISABLED)


def ending(
    kind: ExitKind | None = ExitKind.UNREG, code: int | None = 0, course: Course = Course.ENDED
) -> Ending:
    words = "" if code is None else str(Exit(code))
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
            "fifo was ejected by a human, with SysRq-S",
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
    assert told.why == "the kernel says: rig_fifo: as the kernel says it; its last words: bye"
    assert "nothing starts it again by itself" in told.remedy


@pytest.mark.parametrize(
    ("hold", "ejection"), [(Hold.LINK, ()), (Hold.MAP, (Eject(),))], ids=["ends with it", "outlives it"]
)
def test_what_would_outlive_its_program_is_ejected(hold: Hold, ejection: tuple[Action, ...]) -> None:
    seen = HostObservation(ENABLED, Proof(hold, INSIDE))

    assert plan_end(seen, OURS) == (Stop(OURS), AwaitRelease(OURS), *ejection, Discard(OURS))


def test_what_has_ended_is_only_removed() -> None:
    ended = Known("podman", "ab" * 32, "fifo", is_running=False)

    assert plan_end(HostObservation(DISABLED), ended) == (Discard(ended),)


ENDED = OURS._replace(is_running=False, pid=0)
PROVED = HostObservation(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.MAP, INSIDE, map_id=3))
LEFT = HostObservation(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.NOBODY, map_id=3))
STRAY = HostObservation(ENABLED, Proof(Hold.LINK, Process(9, cgroups=(f"/libpod-{OURS.id}.scope",))))


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
    proved: HostObservation | None, is_ejected: bool
) -> None:
    ejection = (Eject(),) if is_ejected else ()

    assert plan_end(LEFT, ENDED, proved) == (*ejection, Discard(ENDED))
    assert plan_end(LEFT, OURS, proved) == (Stop(OURS), AwaitRelease(OURS), *ejection, Discard(OURS))


def test_a_kernel_that_does_not_count_attachments_is_judged_by_the_map() -> None:
    uncounted = PROVED._replace(kernel=ENABLED)

    assert outlives(LEFT._replace(kernel=ENABLED), uncounted)
    assert not outlives(HostObservation(ENABLED, Proof(Hold.NOBODY, map_id=4)), uncounted)
    assert not outlives(HostObservation(ENABLED, Proof(Hold.NOBODY)), uncounted)


@pytest.mark.parametrize(
    ("seen", "proved", "what"),
    [
        pytest.param(STRAY, None, "the kernel still runs fifo, of container fifo", id="a process of ours"),
        pytest.param(LEFT, PROVED, "the container is gone, but the kernel still runs fifo", id="no process"),
        pytest.param(LEFT, None, "the container is gone, but the kernel still runs fifo", id="perhaps ours"),
        pytest.param(
            LEFT,
            HostObservation(KernelState(State.ENABLED, "fifo", 4)),
            "the container is gone, but the kernel still runs fifo",
            id="attached again, perhaps by its program",
        ),
        pytest.param(LEFT, HostObservation(KernelState(State.ENABLED, "mine", 4)), "", id="of somebody else"),
        pytest.param(HostObservation(DISABLED), PROVED, "", id="nothing"),
    ],
)
def test_what_the_kernel_runs_on_is_told_if_it_may_be_ours(
    seen: HostObservation, proved: HostObservation | None, what: str
) -> None:
    left = find_left(seen, ENDED, proved)

    assert (left.what if left else "") == what


def test_an_end_that_left_its_scheduler_in_the_kernel_is_not_in_order() -> None:
    end = ending()._replace(left="the kernel still runs fifo: nobody holds it")

    assert not end.is_in_order
    assert explain_end(end).why.endswith("the kernel still runs fifo: nobody holds it")
    assert "schedctl reset" in explain_end(end).remedy


def test_a_scheduler_of_another_name_speaks_against_ours_though_nobody_knows_whose_it_is() -> None:
    theirs = HostObservation(KernelState(State.ENABLED, "humans_choice"), Proof(Hold.UNKNOWN))

    assert judge_stay(theirs, OURS.ours, "fifo", is_alive=True, is_over=True) is Course.LATE
    assert judge_stay(theirs, OURS.ours, "fifo", is_alive=True, is_over=False) is Course.WAITING
    assert judge_stay(theirs, OURS.ours, None, is_alive=True, is_over=True) is Course.ATTACHED


IN_CONTAINERD = HostObservation(ENABLED, Proof(Hold.LINK, Process(7, cgroups=("/schedkit/scx_fifo",))))
BLIND = HostObservation(ENABLED, Proof(Hold.UNKNOWN))


@pytest.mark.parametrize(
    ("host", "is_enough"),
    [
        pytest.param(Host(HostObservation(DISABLED), None), False, id="none answered"),
        pytest.param(Host(IN_CONTAINERD, (), silent=("containerd",)), False, id="the other may have it"),
        pytest.param(Host(IN_CONTAINERD, (ENDED,), silent=("containerd",)), False, id="though one has ended"),
        pytest.param(Host(HostObservation(DISABLED), (), silent=("podman",)), False, id="nothing there yet"),
        pytest.param(Host(BLIND, (OURS,), silent=("containerd",)), True, id="waiting would prove no more"),
        pytest.param(Host(IN_CONTAINERD, (), silent=()), True, id="all answered"),
        pytest.param(Host(HostObservation(ENABLED, Proof(Hold.LINK, INSIDE)), (OURS,)), True, id="ours"),
        pytest.param(Host(HostObservation(DISABLED), (), silent=("containerd",)), True, id="one in no use"),
    ],
)
def test_a_runtime_that_may_have_what_is_attached_is_to_answer_first(host: Host, is_enough: bool) -> None:
    assert is_answered(host, "podman") is is_enough


@pytest.mark.parametrize(
    ("seen", "is_alive", "course"),
    [
        pytest.param(
            HostObservation(ENABLED, Proof(Hold.LINK, INSIDE)), True, Course.ATTACHED, id="it is proved"
        ),
        pytest.param(
            HostObservation(ENABLED, Proof(Hold.UNKNOWN)), True, Course.ATTACHED, id="nothing can be proved"
        ),
        pytest.param(
            HostObservation(ENABLED, Proof(Hold.UNKNOWN)), False, Course.ENDED, id="its program is gone"
        ),
        pytest.param(HostObservation(DISABLED), True, Course.LATE, id="the kernel runs its own"),
        pytest.param(
            HostObservation(ENABLED, Proof(Hold.LINK, Process(99))), True, Course.TAKEN, id="a stranger's"
        ),
        pytest.param(HostObservation(ENABLED, Proof(Hold.NOBODY)), True, Course.LATE, id="nobody's"),
    ],
)
def test_only_what_speaks_against_an_attachment_ends_it(
    seen: HostObservation, is_alive: bool, course: Course
) -> None:
    assert judge_stay(seen, OURS.ours, is_alive=is_alive, is_over=True) is course
    assert may_be_attached(seen, OURS.ours) is (course is Course.ATTACHED or not is_alive)


def test_an_end_whose_container_could_not_be_removed_is_told_with_the_kernels_words_and_what_is_left() -> (
    None
):
    end = ending()._replace(trouble="Podman does not answer")

    told = explain_end(end)

    assert not end.is_in_order
    assert told.why.startswith("the kernel says: rig_fifo")
    assert told.why.endswith("its container may still be there: Podman does not answer")
    assert "schedctl reset" in told.remedy
