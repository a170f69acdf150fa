"""What users do to a SchedExt, and how it ends when nothing comes between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from rig.builders import kubernetes_objects
from rig.cluster import fakenodes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.operator import manager
from rig.operator.manager import SchedExts
from rig.operator.stage import Play, Stage, condition
from rig.operator.writeproxy import Doom

V2 = "ghcr.io/schedkit/scx_rusty:v2"
_NODES = 2
_ALL_AT_ONCE = {"rollingUpdate": {"maxUnavailable": "100%"}}
_LONG_AGO_S = 3600

Nodes: TypeAlias = dict[str, str]
Deed: TypeAlias = Callable[[SchedExts, Nodes], object]
Ending: TypeAlias = Callable[[JsonObject], bool]


@contextmanager
def nodes(cluster: ControlPlane, pool: str) -> Iterator[Nodes]:
    """The label of nodes whose pods count as settled as soon as they run; the CRD is there, too."""
    manager.install_crd(cluster)
    with fakenodes.running(cluster, _NODES, pool=pool, behind_s=_LONG_AGO_S) as running:
        yield running.selector


# Deeds


def nothing(_: SchedExts, __: Nodes) -> None:
    """For scenes that begin with an empty namespace, or that end with the deed."""


def create(schedexts: SchedExts, nodes: Nodes) -> None:
    schedexts.create(nodeSelector=nodes, updateStrategy=_ALL_AT_ONCE, args=["--fast"])


def create_suspended(schedexts: SchedExts, nodes: Nodes) -> None:
    schedexts.create(nodeSelector=nodes, suspend=True)


def update(schedexts: SchedExts, _: Nodes) -> None:
    schedexts.change(sched=V2, args=None, hostPID=True)


def suspend(schedexts: SchedExts, _: Nodes) -> None:
    schedexts.change(suspend=True)


def resume(schedexts: SchedExts, _: Nodes) -> None:
    schedexts.change(suspend=None)


def delete(schedexts: SchedExts, _: Nodes) -> None:
    schedexts.delete()


def replace(schedexts: SchedExts, nodes: Nodes) -> None:
    """Another SchedExt of the same name, before anybody has cleared up after the first."""
    schedexts.delete()
    schedexts.create(nodeSelector=nodes, sched=V2)


# Endings


def runs(seen: JsonObject) -> bool:
    """Pods run everywhere, and the status says so of the current spec."""
    deployed = condition(seen, "Deployed")
    return (
        deployed.get("reason") == "PodsSettled"
        and deployed["observedGeneration"] == seen["schedext"]["generation"]
        and len(seen["pods"]) == _NODES
    )


def rests(seen: JsonObject) -> bool:
    """Nothing runs, as the user wants it."""
    return condition(seen, "Deployed").get("reason") == "Suspended" and not (
        seen["daemonSet"] or seen["pods"]
    )


def is_gone(seen: JsonObject) -> bool:
    """Nothing is left."""
    return seen == {"schedext": None, "daemonSet": None, "pods": []}


@dataclass(frozen=True)
class Scene:
    """What a user does to a cluster in which all is well, and when all is well again."""

    first: Deed
    before: Ending
    deed: Deed
    after: Ending
    last: Deed = nothing  # done when the deed has taken effect, or its manager has died of it
    end: Ending | None = None  # of the last deed; None: that of the first


SCENES = {
    "create": Scene(nothing, is_gone, create, runs),
    "update": Scene(create, runs, update, runs),
    "suspend": Scene(create, runs, suspend, rests),
    "resume": Scene(create_suspended, rests, resume, runs),
    "replace": Scene(create, runs, replace, runs),
    "delete in the middle of a creation": Scene(nothing, is_gone, create, runs, delete, is_gone),
    "delete in the middle of an update": Scene(create, runs, update, runs, delete, is_gone),
}


@dataclass(frozen=True)
class Outcome:
    """How a scene went."""

    died: bool
    writes: tuple[str, ...]  # of the manager, from the deed to its end
    seen: JsonObject  # at the end


async def rehearse(stage: Stage, name: str) -> Outcome:
    """The scene as it goes when nothing comes between."""
    scene = SCENES[name]
    async with stage.play(name.split(maxsplit=1)[0]) as play:
        await set_up(play, scene)
        play.proxy.arm()
        scene.deed(play.schedexts, play.nodes)
        await play.await_picture(scene.after, "the deed takes effect")
        writes = tuple(play.proxy.writes)
        scene.last(play.schedexts, play.nodes)
        seen = await play.await_picture(scene.end or scene.after, "all is well again")
        return Outcome(died=False, writes=writes, seen=seen)


async def set_up(play: Play, scene: Scene) -> manager.Manager:
    """All is well, and a manager sees to it."""
    made = await play.start()
    scene.first(play.schedexts, play.nodes)
    await play.await_picture(scene.before, "all is well at first")
    return made


async def perform(stage: Stage, name: str, doom: Doom, rehearsed: Outcome) -> Outcome:
    """The scene with a manager that meets its doom, and then another one."""
    scene = SCENES[name]
    async with stage.play(f"{name.split(maxsplit=1)[0]}-{doom.number}") as play:
        first = await set_up(play, scene)
        play.proxy.arm(doom, first.process.kill)
        scene.deed(play.schedexts, play.nodes)
        is_done = (lambda seen: seen == rehearsed.seen) if scene.end is None else scene.after
        died = await play.await_end(first, is_done)
        writes = tuple(play.proxy.writes)
        scene.last(play.schedexts, play.nodes)
        if died:
            play.proxy.arm()
            await play.start()
        seen = await play.await_picture(lambda seen: seen == rehearsed.seen, f"{name} ends as rehearsed")
        return Outcome(died, writes, seen)


async def stay_idle(stage: Stage, for_s: float, *, meanwhile: Deed = nothing) -> list[str]:
    """What a manager whose SchedExts are all at rest writes in that time, beside renewals of its lease."""
    async with stage.play("idle", user=_IDLER) as play:
        manager.let_lead(play.cluster, play.schedexts.namespace)
        _rest_in_every_way(play)
        leading = ("--leader-elect", f"--namespace={play.schedexts.namespace}")
        await play.start(*leading)
        await play.await_picture(runs, "all is at rest")
        since = play.cluster.audit_log.position()
        meanwhile(play.schedexts, play.nodes)
        await asyncio.sleep(for_s)
        asked = play.cluster.audit(since=since, user=_IDLER)
        written = [f"{each.verb} {each.resource}" for each in asked if each.verb not in _READING]
        assert written.count(_RENEWAL) > for_s / _RENEWED_EVERY_S / 2, "it does not live"
        return [write for write in written if write != _RENEWAL]


_IDLER = "sked-idle"  # of its own, so that whatever it writes, anywhere, is seen
_READING = frozenset({"get", "list", "watch"})
_RENEWAL, _RENEWED_EVERY_S = "patch leases", 2


def _rest_in_every_way(play: Play) -> None:
    """Running, suspended, without a node, in another's way, and with a name that is taken."""
    create(play.schedexts, play.nodes)
    play.schedexts.create("suspended", suspend=True)
    play.schedexts.create("nowhere", nodeSelector={"no": "node"})
    play.schedexts.create("rival", nodeSelector={"no": "node"})
    path = f"/apis/apps/v1/namespaces/{play.schedexts.namespace}/daemonsets"
    play.cluster.client.create(path, kubernetes_objects.daemon_set("taken", nodes={"no": "node"}))
    play.schedexts.create("taken", nodeSelector={"no": "node"})
