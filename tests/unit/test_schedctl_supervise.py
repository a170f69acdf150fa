"""`schedctl supervise` when its runtime is in trouble, on a machine made of files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schedkit.kernel import observation
from schedkit.model.exits import ExitKind
from schedkit.model.host import HostObservation
from schedkit.model.kernel import SchedExt
from schedkit.model.kernel import State as KernelState
from schedkit.model.lifecycle import Course
from schedkit.model.owners import Hold, Process, Proof
from schedkit.runtimes.containers import Container, Exit, Output, State, Stopped, Stream
from schedkit.runtimes.errors import SilentError
from schedkit.schedctl import supervise, wiring
from schedkit.schedctl.errors import Problem
from schedkit.schedctl.settings import Settings
from schedkit.schedctl.supervise import Supervision

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
    ending = supervision(monkeypatch, Runtime(failing)).await_end()

    assert not ending.is_in_order
    assert ending.kernel_words == "fifo: runnable task stall"
    assert ending.trouble == "Podman does not answer"


@pytest.mark.usefixtures("machine")
def test_a_runtime_that_is_being_restarted_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_POLL_S", 0)

    assert supervision(monkeypatch, Runtime("containers", silences=2)).container.name == "fifo"


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

    ending = supervision(monkeypatch, Runtime(container=later)).await_end()

    assert (ending.kind, ending.kernel_words, ending.exit_code) == (None, "", 0)


def test_what_the_kernel_says_about_a_strangers_scheduler_is_not_about_ours(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = HostObservation(SchedExt(KernelState.ENABLED, "other"), Proof(Hold.LINK, Process(99)))
    monkeypatch.setattr(observation, "observe", lambda _: theirs)  # BPF maps are for root alone
    watched = supervision(monkeypatch, Runtime())
    with (machine / "dev/kmsg").open("ab") as log:
        log.write(b'3,9,46000000,-;sched_ext: BPF scheduler "fifo" disabled (disabled by sysrq-S)\n')

    assert watched.await_end().kind is ExitKind.SYSRQ


@pytest.mark.usefixtures("machine")
def test_a_program_that_has_ended_is_not_attached_because_nobody_knows_whose_the_scheduler_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = HostObservation(SchedExt(KernelState.ENABLED, "fifo"), Proof(Hold.UNKNOWN))
    monkeypatch.setattr(observation, "observe", lambda _: unknown)  # BPF maps are for root alone
    unnoticed = OURS._replace(state=State.RUNNING, pid=7)

    ending = supervision(monkeypatch, Runtime(container=unnoticed)).await_end()

    assert (ending.course, ending.trouble) == (Course.ENDED, "")


@pytest.mark.usefixtures("machine")
def test_what_a_shutdown_has_ended_is_stopped_in_order_without_its_runtime(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    supervision(monkeypatch, Runtime("inspect")).stop()

    assert "its container may still be there: Podman does not answer" in capsys.readouterr().err


def test_a_program_that_goes_on_without_its_runtime_was_not_stopped(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "_PATIENCE_S", 0)
    monkeypatch.setattr(supervise, "_POLL_S", 0)
    (machine / "proc/7").mkdir()
    (machine / "proc/7/stat").write_text(f"7 (fifo) {' '.join(['1'] * 40)}\n")
    going_on = OURS._replace(state=State.RUNNING, pid=7)

    with pytest.raises(SilentError):
        supervision(monkeypatch, Runtime("inspect", container=going_on)).stop()
