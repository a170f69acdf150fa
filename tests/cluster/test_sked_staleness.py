"""Managers that see late, or not at all for a while: they end where those end that saw everything at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from rig import scenes, stage
from rig.controlplane import ControlPlane
from rig.polling import eventually
from rig.scenes import SCENES, Nodes, Outcome
from rig.stage import Play, Stage

_AT_ONCE = 8  # plays
_LATE_S = 4.0
USUAL = ("create", "update", "suspend")
KINDS = ("schedexts", "daemonsets", "pods")
WATCHED = (*KINDS, "events", "nodes")


@pytest.fixture(scope="module")
def nodes(cluster: ControlPlane) -> Iterator[Nodes]:
    with scenes.nodes(cluster, "staleness") as label:
        yield label


@pytest.fixture(
    params=[pytest.param(USUAL, id="usual"), pytest.param(tuple(SCENES), id="all", marks=pytest.mark.full)]
)
def names(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Of scenes."""
    chosen: tuple[str, ...] = request.param
    return chosen


async def play_late(stage: Stage, name: str, late_s: Mapping[str, float], rehearsed: Outcome) -> Outcome:
    """The scene, with what the server tells about these kinds arriving late."""
    scene = SCENES[name]
    async with stage.play(f"late-{name.split()[0]}") as play:
        play.quiet_s += _LATE_S
        await scenes.set_up(play, scene)
        play.proxy.arm()
        play.proxy.late_s = late_s
        scene.deed(play.schedexts, play.nodes)
        if scene.end is not None:
            await play.await_picture(scene.after, "the deed takes effect")
        writes = tuple(play.proxy.writes)
        scene.last(play.schedexts, play.nodes)
        seen = await play.await_picture(lambda seen: seen == rehearsed.seen, f"{name}, {late_s} late")
        return Outcome(died=False, writes=writes or tuple(play.proxy.writes), seen=seen)


def of_daemon_sets(outcome: Outcome) -> list[str]:
    """How the manager wrote DaemonSets."""
    return [write.split()[0] for write in outcome.writes if "/daemonsets" in write]


def test_a_late_cache_ends_where_a_current_one_does(
    cluster: ControlPlane, nodes: Nodes, names: tuple[str, ...]
) -> None:
    """And writes no DaemonSet twice: what an answer showed counts until the watch shows it."""

    async def lag(stage: Stage, name: str) -> None:
        rehearsed = await scenes.rehearse(stage, name)
        lags = [*({kind: _LATE_S} for kind in KINDS), dict.fromkeys(KINDS, _LATE_S)]
        for outcome in await asyncio.gather(*(play_late(stage, name, each, rehearsed) for each in lags)):
            assert of_daemon_sets(outcome) == of_daemon_sets(rehearsed), name

    async def play(stage: Stage) -> None:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(lag(stage, name))

    stage.perform(cluster, nodes, play, at_once=_AT_ONCE, limit_s=600)


async def play_blind(stage: Stage, name: str, rehearsed: Outcome, *, forgotten: bool) -> list[str]:
    """The scene, with a deed that the manager cannot see until later; what it said of its watches."""
    scene = SCENES[name]
    async with stage.play(f"blind-{name.split()[0]}") as play:
        manager = await scenes.set_up(play, scene)
        play.proxy.blind = True
        play.proxy.cut()
        await eventually(lambda: _said(play, "watch_lost"), "it notices")
        scene.deed(play.schedexts, play.nodes)
        scene.last(play.schedexts, play.nodes)
        play.proxy.forgetful = set(WATCHED) if forgotten else set()
        play.proxy.blind = False
        await play.await_picture(lambda seen: seen == rehearsed.seen, f"{name}, unseen at first")
        return [line["event"] for line in manager.lines()]


async def _said(play: Play, word: str) -> bool:
    return word in play.managers[-1].log()


@pytest.mark.parametrize("forgotten", [False, True], ids=["goes on from there", "lists anew after a 410"])
def test_what_happened_while_watches_were_cut_is_noticed(
    cluster: ControlPlane, nodes: Nodes, names: tuple[str, ...], *, forgotten: bool
) -> None:
    async def miss(stage: Stage, name: str) -> None:
        rehearsed = await scenes.rehearse(stage, name)
        said = await play_blind(stage, name, rehearsed, forgotten=forgotten)
        assert ("version_forgotten" in said) is forgotten

    async def play(stage: Stage) -> None:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(miss(stage, name))

    stage.perform(cluster, nodes, play, at_once=_AT_ONCE, limit_s=600)
