"""What a controller says of a reconcile that failed: the server's words, or where a mistake of ours is."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from schedkit.kube.controller import Controller, Result
from schedkit.kube.errors import FencedError, InvalidError, KubeError, Status


@pytest.mark.parametrize(
    ("error", "is_traced"),
    [
        pytest.param(InvalidError(422, Status(message="spec.x: no")), False, id="refused by the server"),
        pytest.param(FencedError("not leading"), False, id="not sent"),
        pytest.param(KeyError("ours"), True, id="a mistake of ours"),
    ],
)
def test_only_a_mistake_of_ours_is_told_with_its_place_in_the_code(
    error: KubeError | KeyError, *, is_traced: bool
) -> None:
    async def fail(_: str) -> Result:
        raise error

    async def scenario() -> None:
        controller: Controller[str] = Controller("daemonsets", fail)
        assert await controller._once("default/scx") == "failed"  # noqa: SLF001 - one turn, without a loop

    with capture_logs() as lines:
        asyncio.run(scenario())

    [line] = lines
    assert (line["event"], line["exc_info"], line["reason"]) == ("reconcile_delayed", is_traced, str(error))
