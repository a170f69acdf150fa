"""The table of `schedctl status`: every combination has an answer, and each answer says how to leave it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from schedkit.model.host.containers import Container, ContainerState
from schedkit.model.host.owners import EJECT, Owner, OwnerKind, attribute, way_to_end
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.status_words import (
    PATIENCE_S,
    RULES,
    Containers,
    HostStatus,
    Status,
    count,
    find_rule,
    judge,
    should_wait,
)
from schedkit.model.kernel.sched_ext import KernelState, State

ID = "5e1f" * 16
UID = "0d5b1c2e-8a9f-4c11-9c1e-1234567890ab"
OURS = Container(ID, "scx_rusty", "podman", ContainerState.RUNNING, 70)
SECOND = Container("c0de" * 16, "scx_lavd", "podman", ContainerState.RUNNING, 80)
COMBINATIONS = list(product(State, OwnerKind, Containers))


def attached(process: Process, ops: str = "mini") -> Snapshot:
    """A kernel that runs what the process holds."""
    return Snapshot(KernelState(State.ENABLED, ops=ops), Proof(Hold.LINK, process))


def quiet(state: State = State.DISABLED) -> Snapshot:
    return Snapshot(KernelState(state))


def judged(
    seen: Snapshot,
    running: Sequence[Container] | None,
    *,
    ended: Sequence[Container] = (),
    silent: Sequence[str] = (),
) -> HostStatus:
    """The answer where these containers are ours; None: no runtime answered."""
    containers = None if running is None else (*running, *ended)
    return judge(seen._replace(containers=containers, silent=tuple(silent)))


@pytest.mark.parametrize(("state", "owner", "containers"), COMBINATIONS)
def test_every_combination_has_a_row_with_words_and_a_way_out(
    state: State, owner: OwnerKind, containers: Containers
) -> None:
    rule = find_rule(state, owner, containers)

    assert rule.words
    assert rule.way_out


def test_exit_codes_are_those_that_scripts_rely_on() -> None:
    assert {status.value: status.exit_code for status in Status} == {
        "idle": 0,
        "running": 0,
        "orphaned-kernel-state": 2,
        "managed-detached": 2,
        "managed-mismatch": 2,
        "multiple-managed": 2,
    }


def test_a_stranger_with_the_name_of_our_container_is_a_stranger() -> None:
    decoy = Process(99, command=f"/usr/bin/{OURS.name}", cgroups=("/user.slice",))
    verdict = judged(attached(decoy, ops=OURS.name), [OURS])

    assert (verdict.status, verdict.owner.kind) == (Status.MISMATCH, OwnerKind.FOREIGN)


@pytest.mark.parametrize("number", range(len(RULES)))
def test_every_row_is_the_answer_to_something(number: int) -> None:
    assert any(find_rule(*combination) is RULES[number] for combination in COMBINATIONS)


def test_running_means_attached_proved_and_alone() -> None:
    running = [each for each in COMBINATIONS if find_rule(*each).status is Status.RUNNING]

    assert running == [(State.ENABLED, OwnerKind.MANAGED, Containers.ONE)]


def test_idle_is_never_said_of_a_kernel_or_a_container_that_may_run_something() -> None:
    idle = [each for each in COMBINATIONS if find_rule(*each).status is Status.IDLE]

    assert {state for state, _, _ in idle} == {State.DISABLED, State.ABSENT}
    assert {containers for _, _, containers in idle} == {Containers.NONE, Containers.UNKNOWN}


@pytest.mark.parametrize("state", State)
def test_two_of_our_containers_are_always_a_discrepancy(state: State) -> None:
    assert judged(quiet(state), [OURS, SECOND]).status is Status.MULTIPLE


IN_OURS = Process(71, ancestors=(70, 1), command="scx_rusty", cgroups=(f"/machine.slice/libpod-{ID}.scope",))
SERVICE = Process(90, command="/usr/bin/scx_lavd", cgroups=("/system.slice/scx.service",))
BY_HAND = Process(91, command="./scx_simple -f", cgroups=("/user.slice/user-0.slice/session-1.scope",))
USERS = Process(
    94, command="scx_flash", cgroups=("/user.slice/user-7.slice/user@7.service/app.slice/flash.service",)
)
LINGERING = Process(95, command="./scx", cgroups=("/user.slice/user-7.slice/user@7.service",))
IN_CONTAINERD = Process(96, command="scx_rusty", cgroups=("/schedkit/scx-rusty",))
IN_DOCKER = Process(97, command="scx", cgroups=(f"/system.slice/docker-{ID}.scope",))
POD = Process(92, command="/scx", cgroups=(f"/kubepods/besteffort/pod{UID}/{'ab' * 32}",))
ORPHAN = Snapshot(KernelState(State.ENABLED, ops="mini"), Proof(Hold.NOBODY, reason="its loader is gone"))
UNPROVED = Snapshot(
    KernelState(State.ENABLED, ops="mini"), Proof(Hold.UNKNOWN, reason="CAP_SYS_PTRACE is needed")
)


@pytest.mark.parametrize(
    ("observation", "ours", "status", "owner"),
    [
        pytest.param(quiet(), [], "idle", "none", id="nothing runs"),
        pytest.param(quiet(), None, "idle", "none", id="nothing runs and no runtime answers"),
        pytest.param(quiet(State.ABSENT), [], "idle", "none", id="no sched_ext"),
        pytest.param(quiet(State.ABSENT), [OURS], "managed-detached", "none", id="ours without sched_ext"),
        pytest.param(attached(IN_OURS), [OURS], "running", "managed", id="ours is attached"),
        pytest.param(
            attached(IN_OURS, "totally_different"), [OURS], "running", "managed", id="under any name"
        ),
        pytest.param(attached(IN_OURS), [OURS, SECOND], "multiple-managed", "managed", id="two of ours"),
        pytest.param(quiet(), [OURS], "managed-detached", "none", id="ours was ejected or is slow"),
        pytest.param(attached(SERVICE), [], "orphaned-kernel-state", "foreign", id="a service"),
        pytest.param(attached(POD), [], "orphaned-kernel-state", "foreign", id="a pod"),
        pytest.param(attached(POD), None, "orphaned-kernel-state", "foreign", id="a pod is never ours"),
        pytest.param(attached(SERVICE), [OURS], "managed-mismatch", "foreign", id="a service beside ours"),
        pytest.param(ORPHAN, [], "orphaned-kernel-state", "orphan", id="an orphan"),
        pytest.param(ORPHAN, [OURS], "managed-mismatch", "orphan", id="an orphan beside ours"),
        pytest.param(UNPROVED, [], "orphaned-kernel-state", "unknown", id="not proved"),
        pytest.param(UNPROVED, [OURS], "managed-mismatch", "unknown", id="not proved to be ours"),
        pytest.param(attached(IN_OURS), None, "orphaned-kernel-state", "unknown", id="whose container?"),
        pytest.param(quiet(State.ENABLING), [OURS], "managed-detached", "none", id="ours hangs"),
        pytest.param(quiet(State.DISABLING), [], "orphaned-kernel-state", "none", id="something hangs"),
        pytest.param(quiet(State.UNKNOWN), [], "orphaned-kernel-state", "none", id="a word of the future"),
    ],
)
def test_what_is_seen_becomes_the_contracts_status(
    observation: Snapshot, ours: list[Container] | None, status: str, owner: str
) -> None:
    verdict = judged(observation, ours)

    assert (verdict.status.value, verdict.owner.kind.value) == (status, owner)
    assert "{" not in verdict.words + verdict.way_out


@pytest.mark.parametrize(
    ("running", "status"),
    [
        pytest.param([], "orphaned-kernel-state", id="alone"),
        pytest.param([SECOND], "managed-mismatch", id="beside one that runs"),
        pytest.param([SECOND, SECOND], "multiple-managed", id="beside several"),
    ],
)
def test_what_an_ended_container_left_in_the_kernel_is_ours_to_end(
    running: list[Container], status: str
) -> None:
    verdict = judged(attached(IN_OURS), running, ended=[OURS._replace(state=ContainerState.EXITED, pid=None)])

    assert (verdict.status.value, verdict.owner.kind) == (status, OwnerKind.MANAGED)
    assert "schedctl did not start" not in verdict.words
    assert "; container scx_rusty started it and has ended, but left a process behind" in verdict.words
    assert "`schedctl reset`" in verdict.way_out


def test_words_name_the_scheduler_and_its_owner_and_how_to_end_it() -> None:
    verdict = judged(attached(SERVICE), [OURS])

    assert verdict.words == (
        "container scx_rusty runs, but the kernel runs mini, "
        "which was started by process 90 (/usr/bin/scx_lavd) in the systemd unit scx.service"
    )
    assert verdict.way_out == (
        "end the other scheduler (`kill 90`; if it comes back, run `systemctl stop scx.service`), "
        "or stop container scx_rusty (`schedctl stop`)"
    )


def test_what_outlives_its_process_is_to_be_ejected() -> None:
    owner = attribute(Proof(Hold.MAP, Process(93, command="./scx")), [])

    assert way_to_end(owner) == f"`kill 93`; the kernel keeps the scheduler even then, so {EJECT}"
    assert judged(ORPHAN, []).way_out == EJECT


def test_the_reason_why_nothing_is_proved_is_told() -> None:
    assert "CAP_SYS_PTRACE is needed" in judged(UNPROVED, [OURS]).words


IN_ITS_CLUSTER = "with kubectl, suspend its SchedExt, or delete its DaemonSet if it has no SchedExt"
IT_COMES_BACK = "Kubernetes starts again what schedctl ends"


@pytest.mark.parametrize(
    ("process", "words", "ending"),
    [
        (
            SERVICE,
            "process 90 (/usr/bin/scx_lavd) in the systemd unit scx.service",
            "`kill 90`; if it comes back, run `systemctl stop scx.service`",
        ),
        (
            USERS,
            "process 94 (scx_flash) in the systemd unit flash.service",
            "`kill 94`; if it comes back, run `systemctl --user stop flash.service` as the unit's user",
        ),
        (BY_HAND, "process 91 (./scx_simple -f)", "`kill 91`"),
        (LINGERING, "process 95 (./scx)", "`kill 95`"),
        (IN_CONTAINERD, "container scx-rusty", "stop container scx-rusty with the program that started it"),
        (
            POD,
            f"pod {UID} (Kubernetes)",
            f"{IN_ITS_CLUSTER} (the pod's uid is {UID}); {IT_COMES_BACK}",
        ),
        (
            POD._replace(pod="prod/scx-rusty-x7k2p"),
            "pod prod/scx-rusty-x7k2p (Kubernetes)",
            f"{IN_ITS_CLUSTER} (`kubectl -n prod describe pod scx-rusty-x7k2p` names it); {IT_COMES_BACK}",
        ),
        (Process(93, command="./scx"), "process 93 (./scx)", "`kill 93`"),
        (IN_OURS, "container 5e1f5e1f5e1f", "stop container 5e1f5e1f5e1f with the program that started it"),
    ],
)
def test_a_foreign_owner_is_named_by_what_one_would_look_for(
    process: Process, words: str, ending: str
) -> None:
    owner = attribute(Proof(Hold.LINK, process), [])

    assert (owner.kind, str(owner), way_to_end(owner)) == (OwnerKind.FOREIGN, words, ending)


@pytest.mark.parametrize(
    ("process", "silent", "kind"),
    [
        pytest.param(IN_CONTAINERD, ["containerd"], "unknown", id="containerd's, which is silent"),
        pytest.param(IN_CONTAINERD, ["podman"], "foreign", id="containerd's, which has answered"),
        pytest.param(IN_OURS, ["podman"], "unknown", id="Podman's, which is silent"),
        pytest.param(IN_OURS, ["containerd"], "foreign", id="Podman's, which has answered"),
        pytest.param(IN_DOCKER, ["podman", "containerd"], "foreign", id="Docker's"),
        pytest.param(POD, ["podman", "containerd"], "foreign", id="a pod's"),
        pytest.param(SERVICE, ["podman", "containerd"], "foreign", id="in no container"),
    ],
)
def test_nothing_is_foreign_that_a_silent_runtime_may_have_started_for_us(
    process: Process, silent: list[str], kind: str
) -> None:
    verdict = judged(attached(process), [], silent=silent)

    assert verdict.owner.kind.value == kind
    assert ("kill" in verdict.way_out) is (process is SERVICE)


def test_a_container_that_has_answered_is_ours_whoever_else_is_silent() -> None:
    ours = Container("scx-rusty", "scx-rusty", "containerd", ContainerState.RUNNING)

    assert judged(attached(IN_CONTAINERD), [ours], silent=["podman"]).status is Status.RUNNING


def test_a_kernel_that_cannot_be_read_is_said_to_be_unknown_and_not_waited_for() -> None:
    dark = Snapshot(KernelState(State.UNKNOWN, problem="is /sys mounted?", is_readable=False))

    verdict = judged(dark, [])

    assert not should_wait(dark, waited_s=0)
    assert (verdict.exit_code, verdict.words) == (2, "it is not known what the kernel runs: is /sys mounted?")


def test_ours_is_named_by_its_name() -> None:
    assert str(attribute(Proof(Hold.LINK, IN_OURS), [SECOND, OURS])) == "container scx_rusty"


def test_a_scheduler_without_a_link_does_not_end_with_its_process() -> None:
    assert attribute(Proof(Hold.LINK, SERVICE), []).ends_with_process
    assert not attribute(Proof(Hold.MAP, SERVICE), []).ends_with_process
    assert not attribute(Proof(Hold.NOBODY), []).ends_with_process


@pytest.mark.parametrize("state", State)
def test_only_a_kernel_on_its_way_is_waited_for_and_not_forever(state: State) -> None:
    is_moving = state in {State.ENABLING, State.DISABLING, State.UNKNOWN}

    assert should_wait(quiet(state), waited_s=0) is is_moving
    assert not should_wait(quiet(state), waited_s=PATIENCE_S)


def test_no_runtime_that_answers_is_told_from_no_container() -> None:
    assert [count(ours) for ours in (None, [], [OURS], [OURS, SECOND], [OURS] * 3)] == [
        Containers.UNKNOWN,
        Containers.NONE,
        Containers.ONE,
        Containers.SEVERAL,
        Containers.SEVERAL,
    ]


def test_an_owner_without_anything_known_is_nobody() -> None:
    assert str(Owner(OwnerKind.ORPHAN)) == "nobody"
