"""A manager with nothing to do writes nothing but its lease.

A minute of it is part of the everyday run, beside the work of `test_sked_crashes`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.cluster.controlplane import ControlPlane
from rig.operator import scenes, stage
from rig.operator.scenes import Nodes
from rig.operator.stage import Stage


@pytest.fixture(scope="module")
def nodes(cluster: ControlPlane) -> Iterator[Nodes]:
    with scenes.nodes(cluster, "idle") as label:
        yield label


@pytest.mark.full
@pytest.mark.timeout(900)
def test_in_ten_minutes_nothing_but_the_lease_is_written(cluster: ControlPlane, nodes: Nodes) -> None:
    async def play(stage: Stage) -> None:
        assert await scenes.stay_idle(stage, 600) == []

    stage.perform(cluster, nodes, play, at_once=1, limit_s=900)


def test_a_write_in_that_time_would_be_noticed(cluster: ControlPlane, nodes: Nodes) -> None:
    async def play(stage: Stage) -> None:
        written = await scenes.stay_idle(stage, 5, meanwhile=scenes.suspend)
        assert {"delete daemonsets", "update schedexts/status"} <= set(written)

    stage.perform(cluster, nodes, play, at_once=1, limit_s=120)
