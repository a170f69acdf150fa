"""Whether somebody wanted a scheduler's end is decided by the kernel's word first, then by the program's."""

from __future__ import annotations

import pytest

from schedkit.model.exits import ExitKind
from schedkit.model.host import HostObservation
from schedkit.model.kernel import SchedExt, State
from schedkit.model.lifecycle import Action, AwaitRelease, Course, Discard, Eject, Known, Stop
from schedkit.model.owners import Hold, Process, Proof
from schedkit.model.supervision import Ending, explain_end, judge_stay, may_be_attached, plan_end
from schedkit.runtimes.containers import Exit

OURS = Known("podman", "ab" * 32, "fifo", is_running=True, pid=7)
INSIDE = Process(7, command="scx_fifo")
ENABLED, DISABLED = SchedExt(State.ENABLED, "fifo"), SchedExt(State.DISABLED)


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
