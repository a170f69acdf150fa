"""What starts and stops schedulers is decided from one look at a machine."""

from __future__ import annotations

import pytest

from rig.builders.looks import held
from schedkit.model.host.actions import (
    CLEAR,
    Action,
    AwaitAttachment,
    AwaitRelease,
    Create,
    Discard,
    Eject,
    Listen,
    Plan,
    Refused,
    Start,
    Stop,
    Unregister,
)
from schedkit.model.host.confirmation import Course, FailureFacts, explain_failure, judge_start
from schedkit.model.host.containers import Container, ContainerState
from schedkit.model.host.holders import HeldObjects, Leftovers, SchedulerMap
from schedkit.model.host.owners import Owner, OwnerKind
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.release import is_free, is_released, left_in_kernel, plan_ejection
from schedkit.model.host.run_stop_plans import After, choose, plan_run, plan_stop
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State

ID = "ab" * 32
OURS = Container(ID, "fifo", "podman", ContainerState.RUNNING, 7)
DEAD = Container("cd" * 32, "old", "containerd", ContainerState.EXITED)
INSIDE = Process(7, command="scx_fifo")
STRANGER = Process(99, command="scx_other")
EJECTED = SchedulerMap(4, "old_ops", is_registered=True)
POD = Process(98, cgroups=("/kubepods/pod11111111-2222-3333-4444-555555555555/" + "ef" * 32,))


def seen(state: State = State.DISABLED, holder: Process | None = None, hold: Hold | None = None) -> Snapshot:
    is_held = Hold.LINK if holder else Hold.NOTHING
    ops = "fifo" if state is State.ENABLED else None
    return Snapshot(KernelState(state, ops), Proof(hold or is_held, holder, "because"))


def host(observation: Snapshot, *containers: Container, left: HeldObjects | None = None) -> Snapshot:
    return observation._replace(containers=containers, held=left or held())


def refusal(answer: object) -> Refused:
    assert isinstance(answer, Refused)
    return answer


# Running


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        (After.WAIT, (Create(), Start(), AwaitAttachment())),
        (After.LEAVE, (Create(), Start())),
        (After.FOLLOW, (Create(), Listen(), Start())),
    ],
)
def test_a_free_kernel_gets_the_scheduler(after: After, steps: tuple[Action, ...]) -> None:
    assert plan_run(host(seen()), after=after) == Plan(steps, on_failure=CLEAR)


def test_what_earlier_runs_left_behind_is_removed_first() -> None:
    machine = host(seen(), DEAD, left=held(registered=(EJECTED,)))

    steps = Discard(DEAD), Unregister(EJECTED), Create(), Start(), AwaitAttachment()
    assert plan_run(machine) == Plan(steps, on_failure=CLEAR)


@pytest.mark.parametrize(
    ("machine", "what", "remedy"),
    [
        pytest.param(host(seen(State.ABSENT)), "no sched_ext", "doctor", id="a kernel without sched_ext"),
        pytest.param(host(seen(), OURS), "container fifo runs already", "schedctl switch", id="one of ours"),
        pytest.param(host(seen(State.ENABLING)), "changing schedulers", "try again", id="a moving kernel"),
        pytest.param(
            host(seen(State.ENABLED, STRANGER)), "runs fifo already", "`kill 99`", id="a stranger's process"
        ),
        pytest.param(
            host(seen(State.ENABLED, POD)),
            "runs fifo already",
            "with kubectl, suspend its SchedExt",
            id="a pod's",
        ),
        pytest.param(
            host(seen(State.ENABLED, hold=Hold.NOBODY)), "runs fifo already", "schedctl reset", id="nobody's"
        ),
        pytest.param(
            host(seen(State.ENABLED, hold=Hold.UNKNOWN)), "runs fifo already", "status", id="of unknown owner"
        ),
    ],
)
def test_a_kernel_that_is_not_free_gets_none(machine: Snapshot, what: str, remedy: str) -> None:
    refused = refusal(plan_run(machine))

    assert what in refused.what
    assert remedy in refused.remedy


def test_none_is_started_while_somebody_holds_an_old_one() -> None:
    machine = host(seen(), left=held(STRANGER))

    assert refusal(plan_run(machine)).remedy == "end the process first: `schedctl reset`"
    assert isinstance(plan_run(machine, is_forced=True), Plan)


def test_by_force_the_kernel_is_asked_although_it_is_taken_but_never_with_two_of_ours() -> None:
    assert plan_run(host(seen(State.ENABLED, STRANGER)), is_forced=True) == Plan(
        (Create(), Start(), AwaitAttachment()), on_failure=CLEAR
    )
    assert isinstance(plan_run(host(seen(), OURS), is_forced=True), Refused)


@pytest.mark.parametrize(
    ("observation", "is_alive", "is_over", "course"),
    [
        (seen(State.ENABLED, INSIDE), True, False, Course.ATTACHED),
        (seen(State.ENABLED, INSIDE), True, True, Course.ATTACHED),
        (seen(State.ENABLED, STRANGER), True, False, Course.WAITING),
        (seen(State.ENABLED, STRANGER), True, True, Course.TAKEN),
        (seen(State.ENABLED, STRANGER), False, False, Course.ENDED),
        (seen(State.ENABLED, hold=Hold.UNKNOWN), True, False, Course.WAITING),
        (seen(State.ENABLED, hold=Hold.UNKNOWN), True, True, Course.LATE),
        (seen(State.ENABLING), True, False, Course.WAITING),
        (seen(), True, True, Course.LATE),
        (seen(), False, False, Course.ENDED),
    ],
)
def test_only_a_proved_owner_is_an_attachment(
    observation: Snapshot, is_alive: bool, is_over: bool, course: Course
) -> None:
    assert judge_start(observation, OURS, is_alive=is_alive, is_over=is_over) is course


def test_a_failure_tells_the_kernels_reason_and_the_schedulers_last_words() -> None:
    evidence = FailureFacts("exit code 1", "fifo: runtime error", "load failed")

    told = explain_failure("fifo", Course.ENDED, evidence, timeout_s=30)

    assert told.what == "fifo was not attached: its program ended (exit code 1)"
    assert told.why == "the kernel says: fifo: runtime error; the end of the scheduler's output: load failed"
    assert "doctor" in told.remedy


def test_a_late_scheduler_may_be_given_more_time() -> None:
    told = explain_failure("fifo", Course.LATE, FailureFacts(), timeout_s=2.5)

    assert (told.what, told.why) == ("the kernel did not confirm fifo within 2.5 s", "")
    assert "--timeout" in told.remedy


def test_a_kernel_that_is_taken_meanwhile_is_told_with_its_owner() -> None:
    owner = Owner(OwnerKind.FOREIGN, pid=99)

    told = explain_failure("fifo", Course.TAKEN, FailureFacts(owner=owner), timeout_s=30)

    assert "the scheduler of process 99" in told.what
    assert told.remedy == "end that scheduler first: `kill 99`"


# Stopping


def test_stopping_waits_for_the_kernel_before_the_container_is_removed() -> None:
    steps = (Stop(OURS), AwaitRelease(OURS), Discard(OURS))

    assert plan_stop(host(seen(State.ENABLED, INSIDE), OURS), OURS) == Plan(steps)


def test_what_the_kernel_would_keep_after_the_end_of_our_container_is_ejected() -> None:
    machine = host(seen(State.ENABLED, INSIDE, Hold.MAP), OURS)

    assert plan_stop(machine, OURS) == Plan((Stop(OURS), AwaitRelease(OURS), Eject(), Discard(OURS)))
    assert plan_stop(machine, DEAD) == Plan((Stop(DEAD), AwaitRelease(DEAD), Discard(DEAD)))


def test_where_a_pod_has_the_scheduler_ours_is_stopped_only_by_force() -> None:
    machine = host(seen(State.ENABLED, POD), OURS)

    assert "Kubernetes" in refusal(plan_stop(machine, OURS)).why
    assert isinstance(plan_stop(machine, OURS, is_forced=True), Plan)


@pytest.mark.parametrize("word", [None, "fifo", ID, ID[:4]])
def test_the_only_one_is_meant_by_nothing_its_name_or_its_id(word: str | None) -> None:
    assert choose(host(seen(), OURS, DEAD), word) == OURS


def test_what_has_ended_is_meant_when_nothing_runs() -> None:
    assert choose(host(seen(), DEAD), None) == DEAD


@pytest.mark.parametrize(
    ("machine", "word", "what"),
    [
        pytest.param(host(seen(), OURS), "fif", "no container is called 'fif'", id="a part of a name"),
        pytest.param(host(seen(), OURS), "aba", "no container is called 'aba'", id="too little of an id"),
        pytest.param(
            host(seen(), OURS, OURS._replace(id=ID[:-1] + "0", name="b")), ID[:8], "IDs begin", id="two ids"
        ),
        pytest.param(host(seen(), OURS, OURS._replace(id="f")), None, "not clear which", id="two run"),
        pytest.param(host(seen()), None, "schedkit has no containers", id="there is none"),
        pytest.param(
            host(seen(State.ENABLED, STRANGER)), None, "but the kernel runs fifo", id="only a stranger's"
        ),
    ],
)
def test_a_word_that_means_none_or_several_is_refused(machine: Snapshot, word: str | None, what: str) -> None:
    assert what in refusal(choose(machine, word)).what


@pytest.mark.parametrize(
    ("observation", "holders", "is_gone"),
    [
        pytest.param(seen(), [], True, id="the kernel runs its own"),
        pytest.param(seen(), [INSIDE], False, id="a process of it still holds an old link"),
        pytest.param(seen(), [STRANGER], True, id="somebody else's process does not matter"),
        pytest.param(seen(State.DISABLING), [], False, id="the kernel is not done"),
        pytest.param(seen(State.ENABLED, INSIDE), [], False, id="it still owns the scheduler"),
        pytest.param(seen(State.ENABLED, STRANGER), [], True, id="the kernel runs somebody else's"),
    ],
)
def test_a_container_is_gone_when_kernel_and_processes_agree(
    observation: Snapshot, holders: list[Process], is_gone: bool
) -> None:
    looked = observation._replace(held=HeldObjects(tuple(holders)))

    assert is_released(looked, OURS) is is_gone


@pytest.mark.parametrize(
    ("state", "left", "ignored", "expected"),
    [
        pytest.param(State.DISABLED, (), (), True, id="nothing is attached"),
        pytest.param(State.DISABLED, (STRANGER,), (), False, id="somebody holds an old one"),
        pytest.param(State.DISABLED, (STRANGER,), (99,), True, id="somebody who does not matter"),
        pytest.param(State.DISABLING, (), (), False, id="the kernel is not done"),
        pytest.param(State.ENABLED, (), (), False, id="an orphan is attached"),
    ],
)
def test_a_kernel_is_free_when_it_runs_its_own_and_nobody_holds_an_old_one(
    state: State, left: tuple[Process, ...], ignored: tuple[int, ...], expected: bool
) -> None:
    assert is_free(KernelState(state), Leftovers(left), ignored) is expected


def test_a_scheduler_that_outlives_its_container_is_named() -> None:
    assert left_in_kernel(seen()) is None
    assert "still runs fifo" in refusal(left_in_kernel(seen(State.ENABLED, hold=Hold.NOBODY))).what


OURS_KEPT = Snapshot(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.MAP, INSIDE, map_id=3))


def orphan(seq: int | None, map_id: int = 3) -> Snapshot:
    return Snapshot(KernelState(State.ENABLED, "fifo", seq), Proof(Hold.NOBODY, map_id=map_id))


@pytest.mark.parametrize(
    ("seen", "kept", "is_ejected"),
    [
        pytest.param(orphan(5), OURS_KEPT, True, id="what was proved to be ours"),
        pytest.param(orphan(None), OURS_KEPT._replace(kernel=orphan(None).kernel), True, id="by its map"),
        pytest.param(orphan(7), OURS_KEPT, False, id="others came and went"),
        pytest.param(orphan(None, 4), OURS_KEPT, False, id="a kernel that does not count, and another map"),
        pytest.param(orphan(7), None, False, id="nothing was proved, and others came"),
        pytest.param(orphan(5), None, False, id="nothing was proved, and it came while ours was started"),
        pytest.param(orphan(4), None, False, id="nothing was proved, and it was there before"),
        pytest.param(orphan(None), None, False, id="nothing was proved, and the kernel does not count"),
    ],
)
def test_only_what_is_proved_to_be_ours_is_ejected_and_what_else_nobody_holds_is_named(
    seen: Snapshot, kept: Snapshot | None, is_ejected: bool
) -> None:
    decision = plan_ejection(seen, kept)

    assert decision == (Eject() if is_ejected else left_in_kernel(seen))
    assert decision is not None


def test_what_a_process_holds_is_neither_ejected_nor_named() -> None:
    assert plan_ejection(seen(State.ENABLED, STRANGER, Hold.MAP), OURS_KEPT) is None
    assert plan_ejection(seen(), OURS_KEPT) is None


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (
            held(pinned=(SchedulerMap(4, "mini"),)),
            "the kernel has ejected mini, but its link is still pinned",
        ),
        (held(gaps=("it is dark",)), "it is not known whether a process still holds"),
    ],
)
def test_nothing_starts_before_it_is_sure_that_nothing_is_left(left: HeldObjects, words: str) -> None:
    machine = host(seen(), left=left)

    refused = plan_run(machine)

    assert isinstance(refused, Refused)
    assert refused.what.startswith(words)
    assert not isinstance(plan_run(machine, is_forced=True), Refused)
