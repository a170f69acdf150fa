"""What a user said about a launch is what its plan is played with."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from rig.runtimes.fakeruntime import FakeRuntime
from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.host.actions import CLEAR, Create, Plan
from schedkit.model.host.containers import Container, ContainerState
from schedkit.model.host.run_stop_plans import After
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.images.configs import ImageConfig
from schedkit.model.images.references import parse_reference
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.runtimes.errors import RefusedError
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import Spec
from schedkit.schedctl import wiring
from schedkit.schedctl.change.container_spec import Order, specify
from schedkit.schedctl.change.executor import Outcome, perform
from schedkit.schedctl.source.choose import Chosen
from schedkit.schedctl.source.fetch import Fetchable
from schedkit.schedctl.source.load import Ready
from schedkit.schedctl.verbs.machine import run, switch
from schedkit.schedctl.verbs.machine.launch import Asked, Launch, carry_out, describe, standard_input

FIFO = parse_reference("registry.example/fifo")
# of a manifest and its content nothing is asked here
FOUND = Fetchable(FIFO, *cast("tuple[Any, Any, Any, Any]", (None,) * 4), ImageConfig("amd64", "linux"))
READY = Ready(FOUND, "image", UNSIGNED, was_there=True)


def test_what_is_stopped_gets_the_time_that_was_said() -> None:
    asked = Asked(Chosen(FIFO, None), Order(timeout_s=7, grace_s=60), None)

    machine = Launch(
        asked, "podman", {}, READY, Spec(admission=UNSIGNED, name="fifo", image="image")
    ).machine("fifo-2")

    assert (machine.wanted.timeout_s, machine.grace_s, machine.wanted.spec.name) == (7, 60, "fifo-2")


def refusing() -> dict[str, Runtime]:
    """A runtime that creates nothing."""
    runtime = FakeRuntime()
    runtime.failing["create"] = RefusedError("no fifo", "ask another")
    return {"podman": runtime}


@pytest.mark.parametrize(
    ("order", "told"), [(Order(least_privilege=True), "may be too few"), (Order(), "")], ids=["few", "all"]
)
def test_that_privileges_may_be_too_few_is_told_before_the_start_fails_of_it(
    order: Order,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(wiring, "ROOT", tmp_path)
    asked, runtimes = Asked(Chosen(FIFO, None), order, None), refusing()
    launch = Launch(asked, "podman", runtimes, READY, Spec(admission=UNSIGNED, name="fifo", image="image"))
    host = Snapshot(KernelState(State.DISABLED))

    with pytest.raises(RefusedError, match="no fifo"):
        carry_out(launch, Plan((Create(),), CLEAR), host, lambda: None)

    said = capsys.readouterr().err
    assert told in said
    assert bool(said) is bool(told)


def test_nothing_is_made_before_the_container_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "ROOT", tmp_path)
    sockets = tmp_path / "var/run/scx"
    asked, runtimes = Asked(Chosen(FIFO, None), Order(), None), refusing()
    spec = specify(asked.chosen, Order(), FOUND, image="x", admission=UNSIGNED, policy=None, root=tmp_path)
    launch = Launch(asked, "podman", runtimes, READY, spec)

    machine = launch.machine("fifo")
    assert (machine.wanted.folders, list(tmp_path.iterdir())) == ((sockets,), [])

    with pytest.raises(RefusedError, match="no fifo"):
        perform(Create(), machine, Outcome())
    assert sockets.is_dir()


@pytest.mark.parametrize(("after", "has_input"), [(After.FOLLOW, True), (After.WAIT, False)])
def test_only_what_is_attached_reads_our_input(
    after: After, has_input: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(Chosen(FIFO, None), Order(after=after), None)
    launch = Launch(asked, "podman", {}, READY, Spec(admission=UNSIGNED, name="fifo", image="image"))
    with (tmp_path / "input").open("w+") as file:
        monkeypatch.setattr(sys, "stdin", file)

        new = launch.machine("fifo").wanted

        assert new.stdin == (file.fileno() if has_input else None)
    assert new.spec.has_input is has_input


def test_a_terminal_is_not_read_by_who_does_not_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel would stop us: `schedctl run --attach fifo &`."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)

        assert standard_input() is None

    os.close(ours)


def test_without_any_input_there_is_none_to_pass_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    assert standard_input() is None


def test_the_id_in_the_answer_needs_no_runtime_that_may_have_lost_the_container_since() -> None:
    chosen = Chosen(FIFO, None)
    launch = Launch(
        Asked(chosen, Order(), None),
        "podman",
        {},
        READY,
        Spec(admission=UNSIGNED, name="fifo", image="image"),
    )
    outcome = Outcome(created=Container("ab" * 32, "fifo", "podman", ContainerState.CREATED))

    assert describe(launch, outcome)["id"] == "ab" * 32


@pytest.mark.parametrize("verb", [run, switch])
def test_each_verb_that_may_stop_something_asks_for_that_time(verb: object) -> None:
    assert "grace_s" in {each.name for each in verb.command.params}  # type: ignore[attr-defined]  # both have one
