"""`run --attach` beside other calls: what they stop, start again or remove meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rig.guest.fakekernel import FakeKernel
from rig.runtimes.fakeruntime import FakeRuntime
from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.host.actions import CLEAR, Plan
from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.model.host.processes import Hold
from schedkit.runtimes.containers import Output, Stream
from schedkit.runtimes.specs import Spec
from schedkit.schedctl import wiring
from schedkit.schedctl.change.executor import Outcome
from schedkit.schedctl.change.machine import Machine, NewContainer
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.verbs.machine import launch
from schedkit.schedctl.verbs.machine.launch import Change

OURS = Container("id", "fifo", "podman", ContainerState.CREATED, created_at=datetime(2026, 1, 1, tzinfo=UTC))
RUNNING = OURS._replace(state=ContainerState.RUNNING)
EXITED = OURS._replace(state=ContainerState.EXITED, exit=Exit(3))
ANOTHER = RUNNING._replace(created_at=datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")


def change(runtime: FakeRuntime, outputs: Iterable[Output] = (), kernel: FakeKernel | None = None) -> Change:
    """One that has created and started a container."""
    new = NewContainer("podman", Spec(admission=UNSIGNED, name="fifo", image="image"))
    machine = Machine(kernel or FakeKernel(), {"podman": runtime}, lambda _: None, new=new)
    return Change(Plan((), CLEAR), machine, Outcome(created=OURS, outputs=outputs))


def having(container: Container) -> FakeRuntime:
    runtime = FakeRuntime()
    runtime.have(container)
    return runtime


def brought_back() -> FakeRuntime:
    """A failed switch has started it again by the time of the first look; then it ends."""
    runtime = having(RUNNING)
    runtime.hooks["follow fifo"] = lambda: runtime.end("fifo", 3)
    return runtime


def removed() -> FakeRuntime:
    runtime = having(EXITED)
    runtime.hooks["inspect fifo"] = lambda: runtime.lose("fifo")
    return runtime


def replaced() -> FakeRuntime:
    runtime = having(EXITED)
    runtime.hooks["inspect fifo"] = lambda: runtime.have(ANOTHER)
    return runtime


@pytest.mark.parametrize(
    ("having", "asked"),
    [
        pytest.param(lambda: having(EXITED), ["stop fifo", "remove fifo"], id="it ended"),
        pytest.param(
            brought_back, ["follow fifo", "stop fifo", "remove fifo"], id="a switch brought it back"
        ),
        pytest.param(removed, [], id="somebody removed it"),
        pytest.param(replaced, [], id="somebody else has its name"),
    ],
)
def test_what_has_ended_is_removed_and_nothing_else(
    having: Callable[[], FakeRuntime], asked: list[str]
) -> None:
    runtime = having()

    with pytest.raises(SystemExit) as end:
        launch.follow(change(runtime))

    assert (end.value.code, runtime.asked) == (3, asked)


def interrupted() -> Iterator[Output]:
    yield Output(Stream.STDOUT, b"")
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("found", "asked"), [(RUNNING, ["stop fifo", "remove fifo"]), (ANOTHER, [])], ids=["ours", "another"]
)
def test_an_interruption_ends_what_was_started_here(found: Container, asked: list[str]) -> None:
    runtime = having(found)

    with pytest.raises(SystemExit):
        launch.follow(change(runtime, interrupted()))

    assert runtime.asked == asked


def test_a_scheduler_that_stays_in_the_kernel_when_its_program_has_ended_is_named() -> None:
    kernel = FakeKernel()
    kernel.spawn(99, "loader")
    kernel.attach(99, "fifo", Hold.MAP)
    kernel.end(99)

    with pytest.raises(Problem, match="the kernel still runs fifo") as met:
        launch.follow(change(having(EXITED), kernel=kernel))

    assert "schedctl reset" in met.value.remedy
