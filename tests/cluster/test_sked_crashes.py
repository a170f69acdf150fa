"""A manager killed at any of its writes: the next one ends where an undisturbed one would have.

Each case has a namespace of its own, a real `sked manager` that sees nothing else, and a proxy that kills it
once before the server sees the n-th write, and once when the server has acted but has not been heard.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

import pytest

from rig.base import polling
from rig.base.errors import RigError
from rig.cluster.controlplane import ControlPlane
from rig.operator import scenes, stage
from rig.operator.scenes import SCENES, Nodes, Outcome
from rig.operator.stage import Play, Stage
from rig.operator.writeproxy import Doom, Moment

_AT_ONCE = 8  # plays
IDLE_S = 60
USUAL = ("create", "update", "suspend", "delete in the middle of an update")
OF_STATE = re.compile("/(daemonsets|schedexts)")
OF_ANY_KIND = re.compile("")


@pytest.fixture(scope="module")
def nodes(cluster: ControlPlane) -> Iterator[Nodes]:
    with scenes.nodes(cluster, "crashes") as label:
        yield label


async def kill_at_every_write(
    stage: Stage, name: str, moment: Moment, counted: re.Pattern[str], rehearsed: Outcome
) -> list[Outcome]:
    """One run for each write, until one in which there is no n-th write."""

    def killed_at(number: int) -> Coroutine[Any, Any, Outcome]:
        return scenes.perform(stage, name, Doom(number, moment, counted), rehearsed)

    expected = sum(counted.search(write) is not None for write in rehearsed.writes)
    outcomes = list(await asyncio.gather(*map(killed_at, range(1, expected + 2))))
    while outcomes[-1].died:
        outcomes.append(await killed_at(len(outcomes) + 1))
    return outcomes


async def kill_in_scene(stage: Stage, name: str, moments: Iterable[Moment], counted: re.Pattern[str]) -> None:
    """Raise if a single run does not end as rehearsed."""
    rehearsed = await scenes.rehearse(stage, name)
    for moment in moments:
        outcomes = await kill_at_every_write(stage, name, moment, counted, rehearsed)
        assert outcomes[0].died, f"{name}: nobody was killed at the first write"
        assert not outcomes[-1].died, f"{name}: there are more writes than were tried"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("names", "moments", "counted"),
    [
        # a death before a write leaves what a death after the one before it leaves
        pytest.param(USUAL, [Moment.AFTER], OF_STATE, id="write of state"),
        pytest.param(tuple(SCENES), list(Moment), OF_ANY_KIND, id="write at all", marks=pytest.mark.full),
    ],
)
def test_a_manager_killed_at_any(
    cluster: ControlPlane,
    nodes: Nodes,
    names: tuple[str, ...],
    moments: list[Moment],
    counted: re.Pattern[str],
) -> None:
    """It is followed by one that leaves the cluster as if nothing had happened.

    Beside them, to save the minute it takes, one that has nothing to do does nothing.
    """

    async def play(stage: Stage) -> None:
        async with asyncio.TaskGroup() as group:
            idle = group.create_task(scenes.stay_idle(stage, IDLE_S))
            for name in names:
                group.create_task(kill_in_scene(stage, name, moments, counted))
        assert idle.result() == []

    stage.perform(cluster, nodes, play, at_once=_AT_ONCE, limit_s=1100)


def test_a_status_whose_answer_is_lost_has_its_events(cluster: ControlPlane, nodes: Nodes) -> None:
    """Its manager lives on, sends it again, and meets a conflict with itself."""

    def told(play: Play) -> list[str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{play.schedexts.namespace}/events"
        events = [each for each in cluster.client.items(path) if each.get("reason") == "Suspended"]
        return sorted(each["note"].partition(" is ")[0] for each in events)

    async def play(stage: Stage) -> None:
        async with stage.play("lost") as play:
            await scenes.set_up(play, SCENES["suspend"])
            play.proxy.arm(Doom(1, Moment.AFTER, re.compile("PUT .*/status$")), play.proxy.arm)
            scenes.suspend(play.schedexts, play.nodes)
            await play.await_picture(scenes.rests, "nothing runs")
            await polling.soon(lambda: len(told(play)) >= 2, "the events are there", poll_s=0.5)
            assert told(play) == ["Deployed", "Progressing"]

    stage.perform(cluster, nodes, play, at_once=1, limit_s=120)


def test_without_a_second_manager_a_killed_one_is_missed(cluster: ControlPlane, nodes: Nodes) -> None:
    async def play(stage: Stage) -> None:
        async with stage.play("missed") as play:
            first = await play.start()
            play.proxy.arm(Doom(1, Moment.BEFORE, OF_STATE), first.process.kill)
            scenes.create(play.schedexts, play.nodes)
            assert await play.await_end(first, scenes.runs)
            with pytest.raises(RigError, match="not so after 5 s"):
                await play.await_picture(scenes.runs, "it runs", within_s=5)

    stage.perform(cluster, nodes, play, at_once=1, limit_s=120)
