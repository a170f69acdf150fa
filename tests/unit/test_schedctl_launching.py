"""What a user said about a launch is what its plan is played with."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from rig.contents import UNSIGNED
from schedkit.model.host.run_stop import After
from schedkit.model.images.configs import ImageConfig
from schedkit.model.images.references import parse_reference
from schedkit.runtimes.containers import Container, State
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.change.container_spec import Order
from schedkit.schedctl.source.choose import Chosen
from schedkit.schedctl.source.fetch import Fetchable
from schedkit.schedctl.source.load import Ready
from schedkit.schedctl.verbs.machine import run, switch
from schedkit.schedctl.verbs.machine.launch import Asked, Launch, describe, standard_input

FIFO = parse_reference("registry.example/fifo")
# of a manifest and its content nothing is asked here
FOUND = Fetchable(FIFO, *cast("tuple[Any, Any, Any, Any]", (None,) * 4), ImageConfig("amd64", "linux"))
READY = Ready(FOUND, "image", UNSIGNED, was_there=True)


def test_what_is_stopped_gets_the_time_that_was_said() -> None:
    asked = Asked(Chosen(FIFO, None), Order(timeout_s=7, grace_s=60), None)

    stage = Launch(asked, "podman", {}, READY, Spec(admission=UNSIGNED, name="fifo", image="image")).stage(
        "fifo-2"
    )

    assert (stage.timeout_s, stage.grace_s, stage.name) == (7, 60, "fifo-2")


@pytest.mark.parametrize(
    ("order", "told"), [(Order(least_privilege=True), "may be too few"), (Order(), "")], ids=["few", "all"]
)
def test_that_privileges_may_be_too_few_is_told_before_the_start_fails_of_it(
    order: Order, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(Chosen(FIFO, None), order, None)

    Launch(asked, "podman", {}, READY, Spec(admission=UNSIGNED, name="fifo", image="image")).stage("fifo")

    said = capsys.readouterr().err
    assert told in said
    assert bool(said) is bool(told)


@pytest.mark.parametrize(("after", "has_input"), [(After.FOLLOW, True), (After.WAIT, False)])
def test_only_what_is_attached_reads_our_input(
    after: After, has_input: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(Chosen(FIFO, None), Order(after=after), None)
    launch = Launch(asked, "podman", {}, READY, Spec(admission=UNSIGNED, name="fifo", image="image"))
    with (tmp_path / "input").open("w+") as file:
        monkeypatch.setattr(sys, "stdin", file)

        stage = launch.stage("fifo")

        assert stage.stdin == (file.fileno() if has_input else None)
    assert stage.spec is not None
    assert stage.spec.has_input is has_input


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
    stage = launch.stage("fifo")
    stage.created = Container("ab" * 32, "fifo", "image", None, {}, State.CREATED, None)

    assert describe(launch, stage)["id"] == "ab" * 32


@pytest.mark.parametrize("verb", [run, switch])
def test_each_verb_that_may_stop_something_asks_for_that_time(verb: object) -> None:
    assert "grace_s" in {each.name for each in verb.command.params}  # type: ignore[attr-defined]  # both have one
