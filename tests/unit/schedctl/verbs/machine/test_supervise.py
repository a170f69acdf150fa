"""`schedctl supervise`: what its loop does on a machine in memory, also when its runtime is in trouble."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from rig.guest.fakekernel import FakeKernel
from rig.runtimes.fakeruntime import FakeRuntime, Program
from schedkit.model.host.confirmation import Course
from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.model.host.processes import Hold
from schedkit.model.host.supervision import RUNTIME_PATIENCE_S
from schedkit.model.kernel.log import ExitKind
from schedkit.model.kernel.sched_ext import State
from schedkit.runtimes.errors import NoSuchContainerError, SilentError
from schedkit.schedctl import wiring
from schedkit.schedctl.problems.problem import ExitCode, Problem
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.verbs.machine import supervise
from schedkit.schedctl.verbs.machine.supervise import Supervision

ID, PID = "ab" * 32, 7
STARTED_AT = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)
SILENT = SilentError("Podman does not answer", "look after it")


class Machine:
    """One container, `fifo`, whose program has ended unless a test lets it run."""

    def __init__(self) -> None:
        self.kernel = FakeKernel()
        self.runtime = FakeRuntime(began=self.kernel.began, ended=self.kernel.ended)
        ended = Container(ID, "fifo", "podman", ContainerState.EXITED, started_at=STARTED_AT, exit=Exit(0))
        self.runtime.have(ended, program())

    def run(self, hold: Hold = Hold.LINK) -> None:
        """Its program runs, and the kernel its scheduler."""
        running = Container(ID, "fifo", "podman", ContainerState.RUNNING, PID)
        self.kernel.began(self.runtime.have(running, program()))
        self.kernel.attach(PID, "fifo", hold)

    def find(self) -> Supervision:
        return supervise.find(self.kernel, lambda: {"podman": self.runtime}, "podman", None, 0)


def program() -> Program:
    return Program(complains=("bye",), code_of_term=0)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")
    return Machine()


def stalled(machine: Machine) -> None:
    """The kernel has ejected it, and its program has ended of that."""
    machine.kernel.spawn(PID, "fifo")
    machine.kernel.attach(PID, "fifo")
    machine.kernel.throw_out(ExitKind.ERROR_STALL)
    machine.kernel.end(PID)


@pytest.mark.parametrize("failing", ["inspect", "remove"])
def test_the_kernels_reason_is_told_also_when_the_runtime_is_in_trouble(
    machine: Machine, failing: str
) -> None:
    stalled(machine)
    machine.runtime.failing[failing] = SILENT

    ended = machine.find().await_end()

    assert not ended.is_in_order
    assert ended.kernel_words == "fifo: runnable task stall (victim[42] failed to run for 2.048s)"
    assert ended.trouble == "Podman does not answer"


def test_a_runtime_that_is_being_restarted_is_waited_for(machine: Machine) -> None:
    machine.runtime.failing["containers"] = SILENT
    machine.runtime.silences["containers"] = 2

    assert machine.find().container.name == "fifo"
    assert 0 < machine.kernel.clock < RUNTIME_PATIENCE_S


def test_what_may_be_ours_is_waited_for_without_an_end(machine: Machine) -> None:
    machine.run()
    machine.runtime.failing["containers"] = SILENT
    machine.runtime.silences["containers"] = 30

    assert machine.find().container.name == "fifo"
    assert machine.kernel.clock > RUNTIME_PATIENCE_S


def test_a_runtime_that_stays_silent_is_told(machine: Machine) -> None:
    machine.runtime.failing["containers"] = SILENT

    with pytest.raises(Problem, match="neither Podman nor containerd answers"):
        machine.find()


def test_an_end_is_told_with_what_kernel_and_program_said(machine: Machine) -> None:
    machine.run()
    watched = machine.find()
    machine.kernel.after(60, lambda: machine.runtime.end("fifo", 1))

    ended = watched.await_end()

    assert (ended.course, ended.kind, ended.exit_code) == (Course.ENDED, ExitKind.UNREG, 1)
    assert (machine.runtime.asked, machine.runtime.containers()) == (["remove fifo"], ())


def test_what_the_kernel_says_about_a_strangers_scheduler_is_not_about_ours(machine: Machine) -> None:
    machine.kernel.spawn(99, "stranger")
    machine.kernel.attach(99, "other")
    watched = machine.find()
    machine.kernel.throw_out(ExitKind.ERROR_STALL)
    machine.kernel.spawn(98, "as ours")
    machine.kernel.attach(98, "fifo")
    machine.kernel.throw_out(ExitKind.SYSRQ)

    assert watched.await_end().kind is ExitKind.SYSRQ


def test_a_program_that_has_ended_is_not_attached_because_nobody_knows_whose_the_scheduler_is(
    machine: Machine,
) -> None:
    unnoticed = Container(ID, "fifo", "podman", ContainerState.RUNNING, PID)
    machine.runtime.have(unnoticed, program())
    machine.kernel.spawn(99, "stranger")
    machine.kernel.attach(99, "fifo")
    machine.kernel.gaps = ("nobody may look into it",)

    ended = machine.find().await_end()

    assert (ended.course, ended.trouble) == (Course.ENDED, "")


def test_what_outlives_a_program_that_ends_by_itself_is_ejected_and_nothing_is_left(machine: Machine) -> None:
    machine.run(Hold.MAP)
    watched = machine.find()
    machine.kernel.after(1, lambda: machine.runtime.end("fifo", 0))

    ended = watched.await_end()

    assert (machine.kernel.ejections, ended.left, ended.trouble) == (1, "", "")


def test_what_was_never_proved_to_be_ours_is_named_and_not_ejected(machine: Machine) -> None:
    machine.kernel.spawn(99, "loader")
    machine.kernel.attach(99, "fifo", Hold.MAP)
    machine.kernel.end(99)

    ended = machine.find().await_end()

    assert machine.kernel.log().exits == ()
    assert "the kernel still runs fifo" in ended.left
    assert not ended.is_in_order


def test_a_stop_ends_what_its_runtime_has_lost(machine: Machine) -> None:
    machine.run(Hold.MAP)
    watched = machine.find()
    machine.runtime.have(Container(ID, "fifo", "podman", ContainerState.EXITED, exit=Exit(0)), program())

    watched.stop()

    assert (PID in machine.kernel.processes, machine.kernel.state().ops) == (False, None)


def test_a_stop_ends_what_a_pinned_link_keeps_when_its_program_is_gone(machine: Machine) -> None:
    """As long as the program holds the link, too, nothing shows that it is pinned."""
    machine.run(Hold.NOBODY)
    watched = machine.find()

    watched.stop()

    assert machine.runtime.asked == ["stop fifo", "remove fifo"]
    assert (machine.kernel.ejections, machine.kernel.state().state) == (1, State.DISABLED)


def test_a_program_that_goes_on_without_its_runtime_was_not_stopped_and_is_named(machine: Machine) -> None:
    machine.run(Hold.MAP)
    watched = machine.find()
    machine.runtime.failing["inspect"] = SILENT

    with pytest.raises(Problem, match="fifo was not stopped") as met:
        watched.stop()

    assert "Podman does not answer; the kernel still runs fifo from container fifo" in met.value.why


def test_a_stranger_with_the_number_of_our_program_is_not_stayed_with(machine: Machine) -> None:
    machine.run()
    watched = machine.find()
    machine.kernel.gaps = ("nobody may look into it",)
    machine.kernel.spawn(PID, "stranger")

    assert watched.await_end().course is Course.ENDED
    assert machine.kernel.clock == 0


def test_one_that_a_failed_switch_has_brought_back_is_stayed_with(machine: Machine) -> None:
    machine.run()
    watched = machine.find()

    def bring_back() -> None:
        if not machine.kernel.state().ops:
            machine.runtime.start("fifo")
            machine.kernel.attach(watched_pid(machine), "fifo")

    machine.kernel.after(5, lambda: machine.runtime.end("fifo", 0))
    machine.runtime.hooks["inspect fifo"] = bring_back  # while we wait for our turn
    machine.kernel.after(500, machine.runtime.hooks.clear)
    machine.kernel.after(600, lambda: machine.runtime.end("fifo", 0))

    assert watched.await_end().is_in_order
    assert machine.kernel.clock == 600


def watched_pid(machine: Machine) -> int:
    return max(machine.kernel.processes)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(SILENT, "Podman does not answer", id="a problem"),
        pytest.param(ZeroDivisionError("nobody foresaw it"), "nobody foresaw it", id="a mistake of ours"),
    ],
)
def test_who_has_not_seen_the_end_of_a_scheduler_exits_with_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fail(settings: Settings) -> NoReturn:
        raise error

    monkeypatch.setattr(wiring, "runtimes", fail)

    ended = CliRunner().invoke(supervise.command, [], obj=Settings())

    assert ended.exit_code == ExitCode.LEFT_BEHIND
    assert told in ended.stderr


Call = Callable[[], "tuple[int, str]"]


@pytest.fixture
def call(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the verb on that machine."""
    monkeypatch.setattr(wiring, "kernel", lambda: machine.kernel)
    monkeypatch.setattr(wiring, "runtimes", lambda _: {"podman": machine.runtime})

    def call() -> tuple[int, str]:
        ended = CliRunner().invoke(supervise.command, [], obj=Settings())
        return ended.exit_code, ended.stderr

    return call


def test_where_nothing_runs_nothing_is_said_to_be_left(machine: Machine, call: Call) -> None:
    machine.runtime.remove("fifo")

    assert call()[0] == ExitCode.FAILED


@pytest.mark.parametrize(("is_left", "code"), [(True, ExitCode.LEFT_BEHIND), (False, ExitCode.FAILED)])
def test_an_end_that_was_seen_is_told_apart_from_one_that_left_its_scheduler(
    machine: Machine, call: Call, is_left: bool, code: ExitCode
) -> None:
    stalled(machine)
    if is_left:
        machine.kernel.spawn(99, "loader")
        machine.kernel.attach(99, "fifo", Hold.MAP)
        machine.kernel.end(99)

    ended, said = call()

    assert ended == code
    assert ("the kernel still runs fifo" in said) is is_left


def test_what_a_shutdown_has_ended_is_stopped_in_order_without_its_runtime(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    watched = machine.find()
    machine.runtime.failing["inspect"] = SILENT

    watched.stop()

    assert "its container may still be there: Podman does not answer" in capsys.readouterr().err


def test_what_outlives_a_program_that_a_shutdown_has_ended_is_ejected_without_its_runtime(
    machine: Machine,
) -> None:
    machine.run(Hold.MAP)
    watched = machine.find()
    machine.kernel.end(PID)
    machine.runtime.failing["inspect"] = SILENT

    watched.stop()

    assert (machine.kernel.ejections, machine.kernel.state().state) == (1, State.DISABLED)


def test_a_container_that_somebody_removed_has_ended_in_order(machine: Machine) -> None:
    machine.run()
    watched = machine.find()
    machine.kernel.after(5, lambda: machine.runtime.remove("fifo"))

    ended = watched.await_end()

    assert (ended.is_gone, ended.is_in_order) == (True, True)
    with pytest.raises(NoSuchContainerError):
        machine.runtime.inspect("fifo")
