"""What a user said about a launch is what its plan is played with."""

from __future__ import annotations

from typing import Any, cast

import pytest

from schedkit.model.images import parse_reference
from schedkit.runtimes.containers import Container, State
from schedkit.runtimes.specs import Spec
from schedkit.schedctl import run, switch
from schedkit.schedctl.choosing import Chosen
from schedkit.schedctl.fetching import Fetchable
from schedkit.schedctl.launching import Asked, Launch, describe
from schedkit.schedctl.orders import Order
from schedkit.schedctl.preparing import Ready


def test_what_is_stopped_gets_the_time_that_was_said() -> None:
    chosen = Chosen(parse_reference("registry.example/fifo"), None)
    asked = Asked(chosen, Order(timeout_s=7, grace_s=60), None)
    ready = cast("Ready", None)  # of no account here

    stage = Launch(asked, "podman", {}, ready, Spec(name="fifo", image="image")).stage("fifo-2")

    assert (stage.timeout_s, stage.grace_s, stage.name) == (7, 60, "fifo-2")


def test_the_id_in_the_answer_needs_no_runtime_that_may_have_lost_the_container_since() -> None:
    chosen = Chosen(parse_reference("registry.example/fifo"), None)
    found = Fetchable(chosen.reference, *cast("tuple[Any, Any, Any, Any]", (None,) * 4))
    ready = Ready(found, "image", signed=None, was_there=True)
    launch = Launch(Asked(chosen, Order(), None), "podman", {}, ready, Spec(name="fifo", image="image"))
    stage = launch.stage("fifo")
    stage.created = Container("ab" * 32, "fifo", "image", None, {}, State.CREATED, None)

    assert describe(launch, stage)["id"] == "ab" * 32


@pytest.mark.parametrize("verb", [run, switch])
def test_each_verb_that_may_stop_something_asks_for_that_time(verb: object) -> None:
    assert "grace_s" in {each.name for each in verb.command.params}  # type: ignore[attr-defined]  # both have one
