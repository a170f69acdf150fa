"""What a user said about a launch is what its plan is played with."""

from __future__ import annotations

from typing import cast

import pytest

from schedkit.model.images import parse_reference
from schedkit.runtimes.specs import Spec
from schedkit.schedctl import run, switch
from schedkit.schedctl.choosing import Chosen
from schedkit.schedctl.launching import Asked, Launch
from schedkit.schedctl.orders import Order
from schedkit.schedctl.preparing import Ready


def test_what_is_stopped_gets_the_time_that_was_said() -> None:
    chosen = Chosen(parse_reference("registry.example/fifo"), None)
    asked = Asked(chosen, Order(timeout_s=7, grace_s=60), None)
    ready = cast("Ready", None)  # of no account here

    stage = Launch(asked, "podman", {}, ready, Spec(name="fifo", image="image")).stage("fifo-2")

    assert (stage.timeout_s, stage.grace_s, stage.name) == (7, 60, "fifo-2")


@pytest.mark.parametrize("verb", [run, switch])
def test_each_verb_that_may_stop_something_asks_for_that_time(verb: object) -> None:
    assert "grace_s" in {each.name for each in verb.command.params}  # type: ignore[attr-defined]  # both have one
