"""`schedctl supervise` when its runtime is in trouble, on a machine made of files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from schedkit.kernel import observation
from schedkit.model.host.attachment import Course
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.status import HostObservation
from schedkit.model.kernel.log import ExitKind
from schedkit.model.kernel.sched_ext import KernelState
from schedkit.model.kernel.sched_ext import State as ExtState
from schedkit.runtimes.containers import Container, Exit, Output, State, Stopped, Stream
from schedkit.runtimes.errors import SilentError
from schedkit.schedctl import wiring
from schedkit.schedctl.change import eject
from schedkit.schedctl.problems.problem import ExitCode, Problem
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.verbs.machine import supervise
from schedkit.schedctl.verbs.machine.supervise import Supervision

OURS = Container(
    "ab" * 32, "fifo", "", None, {}, State.EXITED, None, started_at=datetime(2000, 1, 1, tzinfo=UTC)
)
STALL = b"""\
6,1,42000000,-;sched_ext: BPF scheduler "fifo" enabled
3,2,45000000,-;sched_ext: BPF scheduler "fifo" disabled (runnable task stall)
"""


class Runtime:
    """Has one container, whose program has ended; does not answer what `failing` says."""

    def __init__(self, failing: str = "", silences: int = -1, container: Container = OURS) -> None:
        self.container = container
        self.failing = failing
        self.silences = silences  # after so many it answers; negative: it never does

    def _answer(self, call: str) -> None:
        if call == self.failing:
            self.silences -= 1
            self.failing = call if self.silences else ""
            raise SilentError("Podman does not answer", "look after it")

    def containers(self) -> tuple[Container, ...]:
        self._answer("containers")
        return (self.container,)

    def inspect(self, container: str) -> Container:  # noqa: ARG002 - as in the port
        self._answer("inspect")
        return self.container

    def stop(self, container: str, *, grace_s: float) -> Stopped:  # noqa: ARG002 - as above
        return Stopped(Exit(0), forced=grace_s < 0)

    def remove(self, container: str) -> None:  # noqa: ARG002 - as above
        self._answer("remove")

    def wait(self, container: str, *, timeout_s: float) -> Exit | None:  # noqa: ARG002 - as above
        return Exit(0)

    def logs(self, container: str, *, tail: int) -> Iterator[Output]:  # noqa: ARG002 - as above
        yield Output(Stream.STDERR, b"bye\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its kernel has ejected the scheduler."""
    for folder in ("sys/kernel/sched_ext", "dev", "proc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sys/kernel/sched_ext/state").write_text("disabled\n")
    (tmp_path / "dev/kmsg").write_bytes(STALL)
    monkeypatch.setattr(wiring, "ROOT", tmp_path)
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")
    return tmp_path


def supervision(monkeypatch: pytest.MonkeyPatch, runtime: Runtime) -> Supervision:
    monkeypatch.setattr(wiring, "runtimes", lambda _: {"podman": runtime})
    return Supervision(Settings(), None, 0)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("failing", ["inspect", "remove"])
def test_the_kernels_reason_is_told_also_when_the_runtime_is_in_trouble(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    ended = supervision(monkeypatch, Runtime(failing)).await_end()

    assert not ended.is_in_order
    assert ended.kernel_words == "fifo: runnable task stall"
    assert ended.trouble == "Podman does not answer"


@pytest.mark.usefixtures("machine")
def test_a_runtime_that_is_being_restarted_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_POLL_S", 0)

    assert supervision(monkeypatch, Runtime("containers", silences=2)).container.name == "fifo"


@pytest.mark.usefixtures("machine")
def test_what_may_be_ours_is_waited_for_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Process(7, cgroups=(f"/machine.slice/libpod-{OURS.id}.scope",))
    attached = HostObservation(KernelState(ExtState.ENABLED, "fifo"), Proof(Hold.LINK, inside))
    monkeypatch.setattr(observation, "observe", lambda _: attached)  # BPF maps are for root alone
    monkeypatch.setattr(supervise, "_RUNTIME_PATIENCE_S", -1)
    monkeypatch.setattr(supervise, "_QUIET_S", 0)

    assert supervision(monkeypatch, Runtime("containers", silences=3)).container.name == "fifo"


@pytest.mark.usefixtures("machine")
def test_a_runtime_that_stays_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_RUNTIME_PATIENCE_S", 0)
    monkeypatch.setattr(supervise, "_POLL_S", 0)

    with pytest.raises(Problem, match="neither Podman nor containerd answers"):
        supervision(monkeypatch, Runtime("containers"))


@pytest.mark.usefixtures("machine")
def test_what_the_kernel_said_before_a_container_began_is_not_about_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = OURS._replace(started_at=datetime.now(UTC))

    ended = supervision(monkeypatch, Runtime(container=later)).await_end()

    assert (ended.kind, ended.kernel_words, ended.exit_code) == (None, "", 0)


def test_what_the_kernel_says_about_a_strangers_scheduler_is_not_about_ours(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = HostObservation(KernelState(ExtState.ENABLED, "other"), Proof(Hold.LINK, Process(99)))
    monkeypatch.setattr(observation, "observe", lambda _: theirs)  # BPF maps are for root alone
    watched = supervision(monkeypatch, Runtime())
    with (machine / "dev/kmsg").open("ab") as log:
        log.write(b'3,9,46000000,-;sched_ext: BPF scheduler "fifo" disabled (disabled by sysrq-S)\n')

    assert watched.await_end().kind is ExitKind.SYSRQ


@pytest.mark.usefixtures("machine")
def test_a_program_that_has_ended_is_not_attached_because_nobody_knows_whose_the_scheduler_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = HostObservation(KernelState(ExtState.ENABLED, "fifo"), Proof(Hold.UNKNOWN))
    monkeypatch.setattr(observation, "observe", lambda _: unknown)  # BPF maps are for root alone
    unnoticed = OURS._replace(state=State.RUNNING, pid=7)

    ended = supervision(monkeypatch, Runtime(container=unnoticed)).await_end()

    assert (ended.course, ended.trouble) == (Course.ENDED, "")


class Kernel:
    """Runs what outlives process 7, which holds it until it has ended; BPF maps are for root alone."""

    def __init__(self, machine: Path) -> None:
        self.ejections = 0
        self.hold = Hold.MAP
        self._stat = machine / "proc/7/stat"
        self._stat.parent.mkdir()
        self.begin(100)

    def begin(self, ticks: int) -> None:
        self._stat.write_text("7 (scx) S" + " 0" * 18 + f" {ticks}\n")

    def end(self) -> None:
        self._stat.unlink()

    def observe(self, root: Path) -> HostObservation:  # noqa: ARG002 - as it is called
        kernel = KernelState(ExtState.ENABLED, "fifo", 5)
        if self.ejections:
            return HostObservation(KernelState(ExtState.DISABLED))
        held = Proof(self.hold, Process(7), map_id=3)
        return HostObservation(kernel, held if self._stat.exists() else Proof(Hold.NOBODY, map_id=3))

    def eject(self, root: Path, *, is_blind: bool) -> None:  # noqa: ARG002 - as above
        assert not is_blind
        self.ejections += 1


@pytest.fixture
def kernel(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel(machine)
    monkeypatch.setattr(observation, "observe", kernel.observe)
    monkeypatch.setattr(eject, "eject", kernel.eject)
    return kernel


def test_what_outlives_a_program_that_ends_by_itself_is_ejected_and_nothing_is_left(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(container=OURS._replace(state=State.RUNNING, pid=7))
    watched = supervision(monkeypatch, runtime)

    def end(timeout_s: float) -> None:
        kernel.end()
        runtime.container = OURS

    monkeypatch.setattr(supervise, "announced", lambda: nullcontext(end))
    ended = watched.await_end()

    assert (kernel.ejections, ended.left, ended.trouble) == (1, "", "")


def test_what_was_never_proved_to_be_ours_is_named_and_not_ejected(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.end()

    ended = supervision(monkeypatch, Runtime()).await_end()

    assert kernel.ejections == 0
    assert "the kernel still runs fifo" in ended.left
    assert not ended.is_in_order


def test_a_stop_ends_what_its_runtime_has_lost(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(container=OURS._replace(state=State.RUNNING, pid=7))
    watched = supervision(monkeypatch, runtime)
    runtime.container = OURS
    monkeypatch.setattr(eject, "end_process", lambda *_, grace_s: kernel.end())  # noqa: ARG005 - as it is called

    watched.stop()

    assert kernel.ejections == 1


def test_a_stop_ends_what_a_pinned_link_keeps_when_its_program_is_gone(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the program holds the link, too, nothing shows that it is pinned."""
    kernel.hold = Hold.LINK
    runtime = Runtime(container=OURS._replace(state=State.RUNNING, pid=7))
    watched = supervision(monkeypatch, runtime)

    def stop(container: str, *, grace_s: float) -> Stopped:
        kernel.end()
        runtime.container = OURS
        return Stopped(Exit(0), forced=False)

    monkeypatch.setattr(runtime, "stop", stop)
    watched.stop()

    assert kernel.ejections == 1


@pytest.mark.usefixtures("kernel")
def test_a_program_that_goes_on_without_its_runtime_was_not_stopped_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervise, "_PATIENCE_S", 0)
    monkeypatch.setattr(supervise, "_POLL_S", 0)
    runtime = Runtime(container=OURS._replace(state=State.RUNNING, pid=7))
    watched = supervision(monkeypatch, runtime)
    runtime.failing = "inspect"

    with pytest.raises(Problem, match="fifo was not stopped") as met:
        watched.stop()

    assert "Podman does not answer; the kernel still runs fifo, of container fifo" in met.value.why


def test_a_stranger_with_the_number_of_our_program_is_not_stayed_with(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    unnoticed = Runtime(container=OURS._replace(state=State.RUNNING, pid=7))
    watched = supervision(monkeypatch, unnoticed)
    unknown = HostObservation(KernelState(ExtState.ENABLED, "fifo"), Proof(Hold.UNKNOWN))
    monkeypatch.setattr(observation, "observe", lambda _: unknown)
    monkeypatch.setattr(supervise, "announced", lambda: nullcontext(lambda _: pytest.fail("it is")))
    kernel.begin(200)

    assert watched.await_end().course is Course.ENDED


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(SilentError("Podman does not answer", "look"), "Podman does not answer", id="a problem"),
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


@pytest.mark.usefixtures("machine")
def test_where_nothing_runs_nothing_is_said_to_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()
    monkeypatch.setattr(runtime, "containers", tuple)
    monkeypatch.setattr(wiring, "runtimes", lambda _: {"podman": runtime})

    ended = CliRunner().invoke(supervise.command, [], obj=Settings())

    assert ended.exit_code == ExitCode.FAILED


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("is_left", "code"), [(True, ExitCode.LEFT_BEHIND), (False, ExitCode.FAILED)])
def test_an_end_that_was_seen_is_told_apart_from_one_that_left_its_scheduler(
    monkeypatch: pytest.MonkeyPatch, is_left: bool, code: ExitCode
) -> None:
    orphan = HostObservation(KernelState(ExtState.ENABLED, "fifo"), Proof(Hold.NOBODY))
    if is_left:
        monkeypatch.setattr(observation, "observe", lambda _: orphan)  # BPF maps are for root alone
    monkeypatch.setattr(wiring, "runtimes", lambda _: {"podman": Runtime()})

    ended = CliRunner().invoke(supervise.command, [], obj=Settings())

    assert ended.exit_code == code
    assert ("the kernel still runs fifo" in ended.stderr) is is_left


@pytest.mark.usefixtures("machine")
def test_what_a_shutdown_has_ended_is_stopped_in_order_without_its_runtime(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    supervision(monkeypatch, Runtime("inspect")).stop()

    assert "its container may still be there: Podman does not answer" in capsys.readouterr().err


def test_what_outlives_a_program_that_a_shutdown_has_ended_is_ejected_without_its_runtime(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(container=OURS._replace(state=State.RUNNING, pid=7))
    watched = supervision(monkeypatch, runtime)
    kernel.end()
    runtime.failing = "inspect"

    watched.stop()

    assert kernel.ejections == 1
