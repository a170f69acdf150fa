"""`schedctl supervise` when its runtime is in trouble, on a machine made of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schedkit.runtimes.containers import Container, Exit, Output, State, Stream
from schedkit.runtimes.errors import SilentError
from schedkit.schedctl import supervise, wiring
from schedkit.schedctl.errors import Problem
from schedkit.schedctl.settings import Settings
from schedkit.schedctl.supervise import Supervision

OURS = Container("ab" * 32, "fifo", "", None, {}, State.EXITED, None)
STALL = b"""\
6,1,42000000,-;sched_ext: BPF scheduler "fifo" enabled
3,2,45000000,-;sched_ext: BPF scheduler "fifo" disabled (runnable task stall)
"""


class Runtime:
    """Has one container, whose program has ended; does not answer what `failing` says."""

    def __init__(self, failing: str = "", silences: int = -1) -> None:
        self.failing = failing
        self.silences = silences  # after so many it answers; negative: it never does

    def _answer(self, call: str) -> None:
        if call == self.failing:
            self.silences -= 1
            self.failing = call if self.silences else ""
            raise SilentError("Podman does not answer", "look after it")

    def containers(self) -> tuple[Container, ...]:
        self._answer("containers")
        return (OURS,)

    def inspect(self, container: str) -> Container:  # noqa: ARG002 - as in the port
        self._answer("inspect")
        return OURS

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
