"""`run --attach` beside other calls: what they stop, start again or remove meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rig.contents import UNSIGNED
from schedkit.kernel import observation
from schedkit.model.host.processes import Hold, Proof
from schedkit.model.host.status import HostObservation
from schedkit.model.kernel.sched_ext import KernelState
from schedkit.model.kernel.sched_ext import State as ExtState
from schedkit.runtimes.containers import Container, Exit, Output, State, Stopped, Stream
from schedkit.runtimes.errors import NoSuchContainerError
from schedkit.runtimes.specs import Spec
from schedkit.schedctl import wiring
from schedkit.schedctl.change.executor import Stage
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.verbs.machine import launch

OURS = Container("id", "fifo", "", None, {}, State.CREATED, datetime(2026, 1, 1, tzinfo=UTC))
RUNNING = OURS._replace(state=State.RUNNING)
EXITED = OURS._replace(state=State.EXITED)
ANOTHER = RUNNING._replace(created_at=datetime(2026, 1, 2, tzinfo=UTC))


class Runtime:
    """Each look finds the next of its containers, None for one that is gone."""

    def __init__(self, *looks: Container | None) -> None:
        self.asked: list[str] = []
        self._looks = list(looks)

    def inspect(self, container: str) -> Container:
        found = self._looks.pop(0)
        if found is None:
            raise NoSuchContainerError(f"no container {container}", "look again")
        return found

    def wait(self, container: str, *, timeout_s: float) -> Exit | None:  # noqa: ARG002 - as in the port
        return Exit(3)

    def logs(self, container: str, *, tail: int, follow: bool) -> Iterator[Output]:  # noqa: ARG002 - as above
        self.asked.append(f"logs {container}")
        return iter(())

    def stop(self, container: str, *, grace_s: float) -> Stopped:
        self.asked.append(f"stop {container}")
        return Stopped(Exit(3), forced=grace_s < 0)

    def remove(self, container: str) -> None:
        self.asked.append(f"remove {container}")


def interrupted() -> Iterator[Output]:
    yield Output(Stream.STDOUT, b"")
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("looks", "asked"),
    [
        pytest.param([EXITED], ["stop id", "remove id"], id="it ended"),
        pytest.param([RUNNING, EXITED], ["logs id", "stop id", "remove id"], id="a switch brought it back"),
        pytest.param([None], [], id="somebody removed it"),
        pytest.param([ANOTHER], [], id="somebody else has its name"),
    ],
)
def test_what_has_ended_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[Container | None], asked: list[str]
) -> None:
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")
    runtime = Runtime(*looks)

    with pytest.raises(SystemExit) as end:
        launch.follow(stage(tmp_path, runtime), runtime)  # type: ignore[arg-type]  # all that is asked for

    assert (end.value.code, runtime.asked) == (3, asked)


@pytest.mark.parametrize(
    ("look", "asked"), [(RUNNING, ["stop id", "remove id"]), (ANOTHER, [])], ids=["ours", "another"]
)
def test_an_interruption_ends_what_was_started_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Container, asked: list[str]
) -> None:
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")
    runtime = Runtime(look)
    played = stage(tmp_path, runtime)
    played.outputs = interrupted()

    with pytest.raises(SystemExit):
        launch.follow(played, runtime)  # type: ignore[arg-type]  # all that is asked for

    assert runtime.asked == asked


def test_a_scheduler_that_stays_in_the_kernel_when_its_program_has_ended_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")
    orphan = HostObservation(KernelState(ExtState.ENABLED, "fifo"), Proof(Hold.NOBODY))
    monkeypatch.setattr(observation, "observe", lambda _: orphan)  # BPF maps are for root alone
    runtime = Runtime(EXITED)

    with pytest.raises(Problem, match="the kernel still runs fifo") as met:
        launch.follow(stage(tmp_path, runtime), runtime)  # type: ignore[arg-type]  # all that is asked for

    assert "schedctl reset" in met.value.remedy


def stage(root: Path, runtime: Runtime) -> Stage:
    spec = Spec(admission=UNSIGNED, name="fifo", image="image")
    return Stage(root, {"podman": runtime}, "podman", lambda _: None, spec, created=OURS)  # type: ignore[dict-item]  # all that is asked for
