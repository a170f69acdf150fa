"""From one scheduler to another and back to the kernel's own: what is decided from one look at a machine."""

from __future__ import annotations

import pytest

from rig.builders.looks import held
from schedkit.model.host.actions import (
    CLEAR,
    Action,
    AwaitAttachment,
    AwaitFree,
    AwaitRelease,
    AwaitReturn,
    Create,
    Discard,
    Eject,
    EndProcess,
    Listen,
    Plan,
    Refused,
    Restart,
    Start,
    Stop,
    Unregister,
)
from schedkit.model.host.containers import DIGEST_LABEL, OPTIONS_LABEL, Container, ContainerState
from schedkit.model.host.holders import SchedulerMap
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.run_stop_plans import After, plan_run, plan_stop
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.switch_reset_plans import (
    Unchanged,
    Wanted,
    describe,
    free_name,
    plan_reset,
    plan_switch,
)
from schedkit.model.kernel.sched_ext import KernelState, State

OURS = Container(
    "ab" * 32,
    "fifo",
    "podman",
    ContainerState.RUNNING,
    7,
    labels={DIGEST_LABEL: "sha256:1", OPTIONS_LABEL: "{}"},
)
SECOND = Container("ef" * 32, "second", "podman", ContainerState.RUNNING, 8)
DEAD = Container("cd" * 32, "old", "containerd", ContainerState.EXITED)
INSIDE = Process(7, command="scx_fifo")
STRANGER = Process(99, command="scx_other")
POD = Process(98, command="fifo", cgroups=("/kubepods/pod11111111-2222-3333-4444-555555555555/" + "ef" * 32,))
EJECTED = SchedulerMap(4, "old_ops", is_registered=True)
OTHER = Wanted("podman", "sha256:2", "{}")


def seen(state: State = State.DISABLED, holder: Process | None = None, hold: Hold | None = None) -> Snapshot:
    is_held = Hold.LINK if holder else Hold.NOTHING
    ops = "fifo" if state is State.ENABLED else None
    return Snapshot(KernelState(state, ops), Proof(hold or is_held, holder, "because"))


def host(observation: Snapshot, *containers: Container, left: tuple[Process, ...] = ()) -> Snapshot:
    return observation._replace(containers=containers, held=held(*left))


MINE = seen(State.ENABLED, INSIDE)
THEIRS = seen(State.ENABLED, STRANGER)
KUBERNETES = seen(State.ENABLED, POD)
ORPHAN = seen(State.ENABLED, hold=Hold.NOBODY)
UNKNOWN = seen(State.ENABLED, hold=Hold.UNKNOWN)
STRAY = Process(99, command="child", cgroups=(f"/schedkit/{DEAD.id}",))
STRAYS = seen(State.ENABLED, STRAY)


def free_after(machine: Snapshot, *ignored: int) -> AwaitFree:
    """Waiting for the end of what is attached, also where only the kernel keeps it."""
    kernel = KernelState(machine.kernel.state, machine.kernel.ops, machine.kernel.enable_seq)
    return AwaitFree(ignored, ended=Snapshot(kernel, Proof(machine.proof.hold, map_id=machine.proof.map_id)))


def refusal(answer: object) -> Refused:
    assert isinstance(answer, Refused)
    return answer


# Switching


def test_all_is_prepared_before_the_old_one_stops_and_the_old_one_is_kept_until_the_new_one_is_proved() -> (
    None
):
    until_free = free_after(host(MINE, OURS))
    assert plan_switch(host(MINE, OURS), OTHER) == Plan(
        steps=(Create(), Stop(OURS, is_awaited=False), until_free, Start(), AwaitAttachment()),
        on_failure=CLEAR,
        way_back=(until_free._replace(unless=OURS), Restart(OURS), AwaitReturn(OURS)),
        afterwards=(Discard(OURS),),
        replaced=OURS,
    )


@pytest.mark.parametrize(
    ("after", "begins"), [(After.LEAVE, (Create(),)), (After.FOLLOW, (Create(), Listen()))]
)
def test_who_does_not_wait_gets_the_same_without_the_proof(after: After, begins: tuple[Action, ...]) -> None:
    machine = host(MINE, OURS)
    plan = plan_switch(machine, OTHER, after=after)

    assert isinstance(plan, Plan)
    assert plan.steps == (*begins, Stop(OURS, is_awaited=False), free_after(machine), Start())


def test_what_interrupted_changes_left_behind_goes_first() -> None:
    plan = plan_switch(host(MINE, OURS, DEAD), OTHER)

    assert isinstance(plan, Plan)
    assert plan.steps[:2] == (Discard(DEAD), Create())


def test_what_an_ejected_one_left_in_the_kernel_goes_once_nothing_is_attached() -> None:
    machine = host(MINE, OURS)._replace(held=held(registered=(EJECTED,)))
    plan = plan_switch(machine, OTHER)

    assert isinstance(plan, Plan)
    assert plan.steps[-4:] == (free_after(machine), Unregister(EJECTED), Start(), AwaitAttachment())


def test_where_nothing_of_ours_runs_a_switch_is_a_run() -> None:
    assert plan_switch(host(seen(), DEAD), OTHER) == Plan(
        (Discard(DEAD), Create(), Start(), AwaitAttachment()), on_failure=CLEAR
    )


def test_what_runs_already_in_the_same_way_is_left_alone() -> None:
    same = Wanted(OURS.driver, OURS.digest, OURS.options)

    assert plan_switch(host(MINE, OURS), same) == Unchanged(OURS)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(Wanted("podman", "sha256:2", "{}"), id="another image"),
        pytest.param(Wanted("podman", "sha256:1", '{"preset": "x"}'), id="other options"),
        pytest.param(Wanted("containerd", "sha256:1", "{}"), id="another runtime"),
    ],
)
def test_whatever_differs_is_a_reason_to_switch(wanted: Wanted) -> None:
    assert isinstance(plan_switch(host(MINE, OURS), wanted), Plan)


def test_the_same_is_started_again_when_the_kernel_has_ejected_it_and_nothing_comes_back() -> None:
    """Who was thrown out is not what to return to."""
    plan = plan_switch(host(seen(), OURS, left=(INSIDE,)), Wanted(OURS.driver, OURS.digest, OURS.options))

    assert isinstance(plan, Plan)
    assert (plan.steps[:2], plan.way_back, plan.afterwards) == ((Create(), Stop(OURS)), (), (Discard(OURS),))


def test_what_the_kernel_would_keep_is_ejected_between_the_two() -> None:
    machine = host(seen(State.ENABLED, INSIDE, Hold.MAP), OURS)
    plan = plan_switch(machine, OTHER)

    assert isinstance(plan, Plan)
    assert plan.steps == (Create(), Stop(OURS), Eject(), free_after(machine), Start(), AwaitAttachment())


@pytest.mark.parametrize(
    ("machine", "what", "remedy"),
    [
        pytest.param(host(seen(State.ABSENT)), "no sched_ext", "doctor", id="a kernel without sched_ext"),
        pytest.param(host(MINE, OURS, SECOND), "several", "schedctl reset", id="two of ours"),
        pytest.param(host(THEIRS), "schedctl did not start", "--evict 99", id="a stranger's"),
        pytest.param(
            host(THEIRS, OURS), "schedctl did not start", "--evict 99", id="a stranger's beside ours"
        ),
        pytest.param(host(KUBERNETES), "(Kubernetes)", "--force and --evict 98", id="a pod's"),
        pytest.param(host(ORPHAN), "runs fifo already", "schedctl reset", id="nobody's"),
        pytest.param(host(UNKNOWN, OURS), "runs fifo already", "status", id="of unknown owner"),
        pytest.param(
            host(seen(State.ENABLING), OURS), "changing schedulers", "try again", id="a moving kernel"
        ),
        pytest.param(
            host(MINE, OURS, left=(STRANGER,)), "process 99 ", "schedctl reset", id="an old one lingers"
        ),
        pytest.param(
            host(seen(), OURS, left=(STRANGER,)), "process 99 ", "schedctl reset", id="the same, all ejected"
        ),
    ],
)
def test_a_switch_that_cannot_be_or_is_not_ours_to_make_is_refused(
    machine: Snapshot, what: str, remedy: str
) -> None:
    refused = refusal(plan_switch(machine, OTHER))

    assert what in refused.what
    assert remedy in refused.remedy


def test_a_strangers_scheduler_ends_if_its_process_is_named_and_does_not_come_back() -> None:
    plan = plan_switch(host(THEIRS), OTHER, evicted=99)

    steps = Create(), EndProcess(STRANGER), free_after(host(THEIRS)), Start(), AwaitAttachment()
    assert plan == Plan(steps, on_failure=CLEAR)


def test_a_pods_scheduler_ends_only_by_force_and_name() -> None:
    assert isinstance(plan_switch(host(KUBERNETES), OTHER, evicted=98), Refused)
    assert isinstance(plan_switch(host(KUBERNETES), OTHER, is_forced=True), Refused)
    assert isinstance(plan_switch(host(KUBERNETES), OTHER, evicted=98, is_forced=True), Plan)


def test_to_name_a_process_that_has_no_scheduler_is_refused() -> None:
    for machine in (host(THEIRS), host(seen()), host(MINE, OURS)):
        assert "process 5 has no scheduler" in refusal(plan_switch(machine, OTHER, evicted=5)).what
        assert "process 5 has no scheduler" in refusal(plan_reset(machine, evicted=5)).what


def test_by_force_those_who_linger_are_not_waited_for() -> None:
    machine = host(MINE, OURS, left=(STRANGER,))
    plan = plan_switch(machine, OTHER, is_forced=True)

    assert isinstance(plan, Plan)
    assert free_after(machine, STRANGER.pid) in plan.steps


def test_a_name_that_runs_already_gets_a_number() -> None:
    assert free_name("alias", host(MINE, OURS, DEAD)) == "alias"
    assert free_name("old", host(MINE, OURS, DEAD)) == "old"
    assert free_name("fifo", host(MINE, OURS)) == "fifo-2"
    assert free_name("fifo", host(MINE, OURS, OURS._replace(name="fifo-2"))) == "fifo-3"


def test_the_name_of_one_whose_process_has_the_attached_scheduler_is_not_given_again() -> None:
    assert free_name("old", host(STRAYS, OURS, DEAD)) == "old-2"


@pytest.mark.parametrize("observation", [STRAYS, UNKNOWN], ids=["it is proved", "it may be"])
def test_the_record_that_proves_whose_the_attached_scheduler_is_goes_last(
    observation: Snapshot,
) -> None:
    plan = plan_switch(host(observation, OURS, DEAD), OTHER, is_forced=True)

    assert isinstance(plan, Plan)
    assert Discard(DEAD) not in plan.steps
    assert plan.afterwards == (Discard(OURS), Discard(DEAD))


def test_a_run_by_force_leaves_the_record_of_what_is_attached_alone() -> None:
    steps = Create(), Start(), AwaitAttachment()
    assert plan_run(host(STRAYS, DEAD), is_forced=True) == Plan(steps, on_failure=CLEAR)


# Resetting

FREE = AwaitFree()  # after the end of what is attached in each row


@pytest.mark.parametrize(
    ("machine", "steps"),
    [
        pytest.param(host(seen()), (), id="nothing is there"),
        pytest.param(host(seen(State.ABSENT)), (), id="no sched_ext, and nothing is there"),
        pytest.param(host(seen(), DEAD), (Discard(DEAD),), id="a half-made container"),
        pytest.param(host(MINE, OURS, DEAD), (Stop(OURS), FREE, Discard(OURS), Discard(DEAD)), id="ours"),
        pytest.param(
            host(MINE, OURS, SECOND),
            (Stop(OURS), Stop(SECOND), FREE, Discard(OURS), Discard(SECOND)),
            id="two of ours",
        ),
        pytest.param(
            host(seen(State.ENABLED, INSIDE, Hold.MAP), OURS),
            (Stop(OURS), Eject(), FREE, Discard(OURS)),
            id="ours, which the kernel would keep",
        ),
        pytest.param(host(ORPHAN), (Eject(), FREE), id="an orphan"),
        pytest.param(
            host(seen())._replace(held=held(registered=(EJECTED,))),
            (Unregister(EJECTED),),
            id="what an ejected one left in the kernel",
        ),
        pytest.param(
            host(seen(), OURS, left=(INSIDE, STRANGER)),
            (Stop(OURS), EndProcess(STRANGER), AwaitFree(), Discard(OURS)),
            id="ejected holders, ours and a stranger's",
        ),
        pytest.param(
            host(seen(State.ABSENT), OURS), (Stop(OURS), Discard(OURS)), id="ours without sched_ext"
        ),
    ],
)
def test_a_reset_leads_back_from_everywhere(machine: Snapshot, steps: tuple[Action, ...]) -> None:
    awaited = tuple(free_after(machine) if each is FREE else each for each in steps)
    assert plan_reset(machine) == Plan(awaited)


@pytest.mark.parametrize(
    ("machine", "what", "remedy"),
    [
        pytest.param(host(THEIRS), "schedctl did not start", "--evict 99", id="a stranger's"),
        pytest.param(host(KUBERNETES, OURS), "(Kubernetes)", "--force and --evict 98", id="a pod's"),
        pytest.param(host(UNKNOWN), "runs fifo", "--force", id="of unknown owner"),
        pytest.param(host(seen(State.DISABLING)), "changing schedulers", "--force", id="a moving kernel"),
        pytest.param(
            host(seen(), left=(POD._replace(pod="prod/fifo-x7k2p"),)),
            "process 98 of pod prod/fifo-x7k2p (Kubernetes)",
            "--force",
            id="a pod lingers",
        ),
    ],
)
def test_a_reset_that_is_not_ours_to_make_is_refused(machine: Snapshot, what: str, remedy: str) -> None:
    refused = refusal(plan_reset(machine))

    assert what in refused.what
    assert remedy in refused.remedy


def test_counters_of_the_kernel_make_no_other_plan() -> None:
    """A reset does what was shown before, and looks again right before it."""
    later = MINE._replace(
        kernel=MINE.kernel._replace(events={"SCX_EV_SELECT_CPU_FALLBACK": 7}, nr_rejected=3)
    )

    assert plan_reset(host(later, OURS)) == plan_reset(host(MINE, OURS))


def test_by_force_or_by_name_a_reset_ends_what_is_not_ours() -> None:
    theirs, pods, unknown = host(THEIRS), host(KUBERNETES), host(UNKNOWN)
    ends = EndProcess(POD), free_after(pods)
    assert plan_reset(theirs, evicted=99) == Plan((EndProcess(STRANGER), free_after(theirs)))
    assert plan_reset(pods, evicted=98, is_forced=True) == Plan(ends)
    assert plan_reset(unknown, is_forced=True) == Plan((Eject(is_blind=True), free_after(unknown)))
    assert plan_reset(host(seen(State.ENABLING)), is_forced=True) == Plan((Eject(is_blind=True), AwaitFree()))
    assert plan_reset(host(seen(), left=(POD,)), is_forced=True) == Plan((EndProcess(POD), AwaitFree()))


def test_by_force_a_scheduler_that_outlives_a_process_of_unknown_owner_is_ejected_once() -> None:
    inside = Process(99, cgroups=(f"/machine.slice/libpod-{'ef' * 32}.scope",))
    machine = host(seen(State.ENABLED, inside, Hold.MAP))._replace(silent=("podman",))

    assert plan_reset(machine, is_forced=True) == Plan((Eject(is_blind=True), free_after(machine)))


def test_what_an_ended_container_of_ours_has_left_in_the_kernel_is_ours() -> None:
    machine = host(STRAYS, DEAD)
    assert plan_reset(machine) == Plan((EndProcess(STRAY), free_after(machine), Discard(DEAD)))
    assert (
        refusal(plan_switch(host(STRAYS, DEAD), OTHER)).remedy == "end its leftover process: `schedctl reset`"
    )
    assert plan_stop(host(STRAYS, DEAD), DEAD) == Plan(
        (Stop(DEAD), EndProcess(STRAY), AwaitRelease(DEAD), Discard(DEAD))
    )


def test_one_that_runs_beside_it_is_stopped_with_it() -> None:
    machine = host(STRAYS, OURS, DEAD)
    ends = (Stop(OURS), EndProcess(STRAY), free_after(machine))

    assert plan_reset(machine) == Plan((*ends, Discard(OURS), Discard(DEAD)))


def test_a_kernel_that_cannot_be_read_is_not_reset_by_any_force() -> None:
    dark = Snapshot(KernelState(State.UNKNOWN, problem="is /sys mounted?", is_readable=False))

    assert "root" in refusal(plan_reset(host(dark), is_forced=True)).remedy


def test_a_reset_is_told_in_words() -> None:
    plan = (Stop(OURS), EndProcess(STRANGER), EndProcess(POD), Eject(), AwaitFree(), Discard(DEAD))

    assert describe(plan) == (
        "stop container fifo",
        "end process 99 (scx_other)",
        "end process 98 (fifo), which Kubernetes starts again",
        "eject the scheduler from the kernel",
        "wait until the kernel runs its own scheduler",
        "remove container old",
    )


def test_all_that_a_switch_may_do_can_be_told_before() -> None:
    plan = plan_switch(host(MINE, OURS), OTHER)

    assert isinstance(plan, Plan)
    assert describe(plan.on_failure) == (
        "check whether the kernel would keep the new scheduler after its program ends",
        "stop the new container",
        "remove the new container",
        "eject what the new container has left in the kernel",
    )
    assert describe(plan.way_back) == (
        "wait until the kernel runs its own scheduler, and eject what stays without its process",
        "start container fifo again",
        "wait until the kernel runs the scheduler of container fifo again",
    )


@pytest.mark.parametrize(
    ("begun", "is_undone"),
    [
        pytest.param((Create(),), False, id="nothing was ended yet"),
        pytest.param((Create(), Stop(OURS)), True, id="the old one was told to stop"),
        pytest.param((Create(), EndProcess(STRANGER)), True, id="a stranger's process was told to end"),
    ],
)
def test_there_is_a_way_back_once_something_was_told_to_end(
    begun: tuple[Action, ...], is_undone: bool
) -> None:
    way_back = (Restart(OURS), AwaitReturn(OURS))

    assert Plan((), way_back=way_back).way_back_from(begun) == (way_back if is_undone else ())


def test_a_reset_ends_no_process_that_may_hold_something_else() -> None:
    left = held(STRANGER, gaps=("the kernel does not show its BPF maps",))

    refused = refusal(plan_reset(host(seen())._replace(held=left)))

    assert str(STRANGER.pid) in refused.what
    assert refused.why == "the kernel does not show its BPF maps"
    machine = host(UNKNOWN)._replace(held=left)
    until_free = free_after(machine, STRANGER.pid)
    assert plan_reset(machine, is_forced=True) == Plan((Eject(is_blind=True), until_free))
