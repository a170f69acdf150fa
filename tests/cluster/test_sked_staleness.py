"""Managers that see late, or not at all for a while: they end where those end that saw everything at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from rig.base.polling import soon
from rig.cluster.controlplane import ControlPlane
from rig.operator import scenes, stage
from rig.operator.scenes import SCENES, Nodes, Outcome
from rig.operator.stage import Stage

_AT_ONCE = 8  # plays
_LATE_S = 3.0
KINDS = ("schedexts", "daemonsets", "pods")
WATCHED = {*KINDS, "events", "nodes", "schedextnodes"}


@pytest.fixture(scope="module")
def nodes(cluster: ControlPlane) -> Iterator[Nodes]:
    with scenes.nodes(cluster, "staleness") as label:
        yield label


@dataclass(frozen=True)
class Extent:
    """How much is tried."""

    names: tuple[str, ...]  # of scenes
    lags: tuple[Mapping[str, float], ...]  # by kind


ALL_LATE = dict.fromkeys(KINDS, _LATE_S)
EXTENTS = [
    pytest.param(Extent(("update", "suspend"), ({"daemonsets": _LATE_S}, ALL_LATE)), id="in some scenes"),
    pytest.param(
        Extent(tuple(SCENES), (*({kind: _LATE_S} for kind in KINDS), ALL_LATE)),
        id="in every scene",
        marks=pytest.mark.full,
    ),
]


def _word(name: str) -> str:
    """For the name of a namespace."""
    return name.partition(" ")[0]


async def play_late(stage: Stage, name: str, late_s: Mapping[str, float], rehearsed: Outcome) -> Outcome:
    """The scene, with what the server tells about these kinds arriving late."""
    scene = SCENES[name]
    async with stage.play(f"late-{_word(name)}") as play:
        await scenes.set_up(play, scene)
        play.quiet_s += _LATE_S
        play.proxy.arm()
        play.proxy.late_s = late_s
        scene.deed(play.schedexts, play.nodes)
        if scene.end is not None:
            await play.await_picture(scene.after, "the deed takes effect")
        writes = tuple(play.proxy.writes)
        scene.last(play.schedexts, play.nodes)
        seen = await play.await_picture(lambda seen: seen == rehearsed.seen, f"{name}, {late_s} late")
        return Outcome(died=False, writes=writes or tuple(play.proxy.writes), seen=seen)


def of_daemon_sets(outcome: Outcome) -> tuple[list[str], bool]:
    """How the manager wrote DaemonSets, and whether it deleted one: asked for twice, that is done once."""
    verbs = [write.split(maxsplit=1)[0] for write in outcome.writes if "/daemonsets" in write]
    return [verb for verb in verbs if verb != "DELETE"], "DELETE" in verbs


@pytest.mark.parametrize("extent", EXTENTS)
def test_a_late_cache_ends_where_a_current_one_does(
    cluster: ControlPlane, nodes: Nodes, extent: Extent
) -> None:
    """And writes no DaemonSet twice: what an answer showed counts until the watch shows it."""

    async def lag(stage: Stage, name: str) -> None:
        rehearsed = await scenes.rehearse(stage, name)
        played = (play_late(stage, name, late_s, rehearsed) for late_s in extent.lags)
        for outcome in await asyncio.gather(*played):
            assert of_daemon_sets(outcome) == of_daemon_sets(rehearsed), name

    async def play(stage: Stage) -> None:
        async with asyncio.TaskGroup() as group:
            for name in extent.names:
                group.create_task(lag(stage, name))

    stage.perform(cluster, nodes, play, at_once=_AT_ONCE, limit_s=900)


async def play_blind(stage: Stage, name: str, rehearsed: Outcome, *, forgotten: bool) -> list[str]:
    """The scene, with a deed that the manager cannot see until later; what it said of its watches."""
    scene = SCENES[name]
    async with stage.play(f"blind-{_word(name)}") as play:
        manager = await scenes.set_up(play, scene)
        await soon(lambda: play.proxy.watched >= WATCHED, "it watches everything")
        play.proxy.blind = True
        play.proxy.cut()
        await soon(lambda: not play.proxy.watched and manager.says("watch_lost"), "it notices", poll_s=0.1)
        scene.deed(play.schedexts, play.nodes)
        scene.last(play.schedexts, play.nodes)
        play.proxy.forgetful = WATCHED.copy() if forgotten else set()
        play.proxy.blind = False
        await soon(lambda: play.proxy.watched >= WATCHED, "it sees again", timeout_s=60)
        await play.await_picture(lambda seen: seen == rehearsed.seen, f"{name}, unseen at first")
        return [line["event"] for line in manager.lines()]


@pytest.mark.parametrize("extent", EXTENTS)
def test_what_happened_while_watches_were_cut_is_noticed(
    cluster: ControlPlane, nodes: Nodes, extent: Extent
) -> None:
    """Whether the server still knows where they were cut, or answers 410 and everything is listed anew."""

    async def miss(stage: Stage, name: str) -> None:
        rehearsed = await scenes.rehearse(stage, name)
        played = (play_blind(stage, name, rehearsed, forgotten=forgotten) for forgotten in (False, True))
        resumed, listed = await asyncio.gather(*played)
        assert "version_forgotten" not in resumed
        assert "version_forgotten" in listed

    async def play(stage: Stage) -> None:
        async with asyncio.TaskGroup() as group:
            for name in extent.names:
                group.create_task(miss(stage, name))

    stage.perform(cluster, nodes, play, at_once=_AT_ONCE, limit_s=900)
