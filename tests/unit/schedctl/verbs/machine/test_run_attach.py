"""`run --attach` beside other calls: what they stop, start again or remove meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rig.runtimes.image_contents import UNSIGNED
from schedkit.kernel import observation
from schedkit.model.host.actions import CLEAR, Plan
from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.model.host.processes import Hold, Proof
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.runtimes.containers import Output, Stopped, Stream
from schedkit.runtimes.errors import NoSuchContainerError
from schedkit.runtimes.specs import Spec
from schedkit.schedctl import wiring
from schedkit.schedctl.change.executor import Outcome
from schedkit.schedctl.change.machine import Machine, NewContainer
from schedkit.schedctl.change.this_kernel import ThisKernel
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.verbs.machine import launch
from schedkit.schedctl.verbs.machine.launch import Change

OURS = Container("id", "fifo", "podman", ContainerState.CREATED, created_at=datetime(2026, 1, 1, tzinfo=UTC))
RUNNING = OURS._replace(state=ContainerState.RUNNING)
EXITED = OURS._replace(state=ContainerState.EXITED)
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
        launch.follow(change(tmp_path, runtime))

    assert (end.value.code, runtime.asked) == (3, asked)


@pytest.mark.parametrize(
    ("look", "asked"), [(RUNNING, ["stop id", "remove id"]), (ANOTHER, [])], ids=["ours", "another"]
)
def test_an_interruption_ends_what_was_started_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Container, asked: list[str]
) -> None:
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")
    runtime = Runtime(look)

    with pytest.raises(SystemExit):
        launch.follow(change(tmp_path, runtime, interrupted()))

    assert runtime.asked == asked


def test_a_scheduler_that_stays_in_the_kernel_when_its_program_has_ended_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")
    orphan = Snapshot(KernelState(State.ENABLED, "fifo"), Proof(Hold.NOBODY))
    monkeypatch.setattr(observation, "observe", lambda _, **__: orphan)  # BPF maps are for root alone
    runtime = Runtime(EXITED)

    with pytest.raises(Problem, match="the kernel still runs fifo") as met:
        launch.follow(change(tmp_path, runtime))

    assert "schedctl reset" in met.value.remedy


def change(root: Path, runtime: Runtime, outputs: Iterable[Output] = ()) -> Change:
    """One that has created and started a container."""
    new = NewContainer("podman", Spec(admission=UNSIGNED, name="fifo", image="image"))
    machine = Machine(ThisKernel(root), {"podman": runtime}, lambda _: None, new=new)  # type: ignore[dict-item]  # all that is asked for
    return Change(Plan((), CLEAR), machine, Outcome(created=OURS, outputs=outputs))
