"""A fleet whose days are simulated: what the manager's own table, and so its metrics, show at each scrape.

Only nodes with something going on are judged; all others are attached.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from rig.builders.observations import NOW, pod, running, waiting
from rig.builders.reports import attached, ended, node, report, sight
from schedkit.model.api.pods import Pod
from schedkit.model.api.reports import ReportKernel, ReportOwner, ReportStatus
from schedkit.model.api.schedextnode import NodeOwnerKind
from schedkit.model.report.kernel_checks import ProvedState
from schedkit.model.report.kernel_table import proved_state
from schedkit.model.report.pod_checks import Bucket, node_state
from schedkit.model.report.sights import Sight

SCRAPE_S = 30
Seen: TypeAlias = tuple[Pod, Sight]


def at(second: float) -> datetime:
    return NOW + timedelta(seconds=second)


@dataclass(frozen=True)
class Happening:
    """What a manager sees of one node from one second to another; outside of these it is attached."""

    begins: float
    ends: float
    see: Callable[[float], Seen]  # at that second


def _attached_pod() -> Pod:
    return pod("node-1", running(3600), start_time=at(-3600))


def agent_upgrade(begins: float, away_s: float) -> Happening:
    """An agent that is away, and comes back."""
    gone = sight(attached(), silent_since=at(begins), has_agent=False)
    return Happening(begins, begins + away_s, lambda _: (_attached_pod(), gone))


def reboot(begins: float, down_s: float, agent_s: float, attach_s: float) -> Happening:
    """Not heard of for a while, then Ready with another boot, then an agent, then the scheduler."""
    up = begins + down_s

    def see(second: float) -> Seen:
        if second < up:
            return _attached_pod(), sight(attached(), node=node(ready=False), silent_since=at(begins))
        return _coming(second, up, agent_s, old=attached(kernel=ReportKernel(boot_id="before")))

    return Happening(begins, up + attach_s, see)


def join(begins: float, agent_s: float, attach_s: float) -> Happening:
    """A new node: first a pod, then an agent, then the scheduler."""
    return Happening(begins, begins + attach_s, lambda second: _coming(second, begins, agent_s, old=None))


def _coming(second: float, up: float, agent_s: float, old: ReportStatus | None) -> Seen:
    """A node that is Ready since `up`; its agent comes, and later its scheduler."""
    joined = {} if old else {"joined_at": at(up)}
    if second < up + agent_s:
        rebooted = {"rebooted_at": at(up)} if old else {}
        unheard = {"silent_since": at(up - 300), "has_agent": False}
        return _starting_pod(), sight(old, **unheard, **joined, **rebooted)
    return _running_pod(up), sight(report(), unattached_since=at(up + 10), **joined)


def _starting_pod() -> Pod:
    return pod("node-1", waiting("ContainerCreating"))


def _running_pod(up: float) -> Pod:
    return pod("node-1", running(-up - 10), start_time=at(up + 10))


def eject(begins: float, lasts_s: float) -> Happening:
    """The kernel ejects the scheduler, and the kubelet brings it back."""
    stall = ended(1026, s_ago=-begins, owner="Pod", pod_uid="node-1-pod")
    return Happening(begins, begins + lasts_s, lambda _: (_attached_pod(), sight(report(exits=(stall,)))))


def foreign_scheduler(begins: float) -> Happening:
    """Somebody starts one by hand, and leaves it."""
    theirs = attached(ReportOwner(kind=NodeOwnerKind.FOREIGN, program="/usr/bin/scx_simple"))
    return Happening(begins, float("inf"), lambda _: (_attached_pod(), sight(theirs)))


def lost_agent(begins: float) -> Happening:
    """An agent that does not come back."""
    return agent_upgrade(begins, float("inf"))


def stuck_scheduler(begins: float) -> Happening:
    """It runs, and never gets attached."""
    seen = sight(report(), unattached_since=at(begins))
    return Happening(begins, float("inf"), lambda _: (_attached_pod(), seen))


def blind_agent(begins: float) -> Happening:
    """An agent that cannot prove whose scheduler the kernel runs."""
    seen = sight(attached(ReportOwner(kind=NodeOwnerKind.UNKNOWN)))
    return Happening(begins, float("inf"), lambda _: (_attached_pod(), seen))


def ordinary_day(nodes: int, seed: int) -> list[Happening]:
    """Every node is rebooted, one in ten joins, and each agent is upgraded, ten in a hundred at a time."""
    dice, day = random.Random(seed), 86400
    reboots = [
        reboot(1800 + (each // 10) * 600 + dice.uniform(0, 60), dice.uniform(90, 400), *_pace(dice))
        for each in range(nodes)
    ]
    joins = [join(dice.uniform(0, day - 600), *_pace(dice)) for _ in range(nodes // 10)]
    upgrades = [
        agent_upgrade(50000 + wave * 130 + dice.uniform(0, 20), dice.uniform(5, 110))
        for wave in range(10)
        for _ in range(nodes // 10)
    ]
    return [*reboots, *joins, *upgrades]


def _pace(dice: random.Random) -> tuple[float, float]:
    """When the agent has reported, and when the scheduler is attached, after the node is Ready."""
    agent_s = dice.uniform(10, 150)
    return agent_s, agent_s + dice.uniform(5, 100)


def series(nodes: int, happenings: Iterable[Happening], lasts_s: int) -> dict[str, list[int]]:
    """What the manager's metrics show at each scrape, by the names that Prometheus has for them."""
    scrapes = lasts_s // SCRAPE_S + 1
    shown: dict[str, list[int]] = {}
    for place, states in enumerate(_by_scrape(happenings, scrapes)):
        for name, count in _metrics(nodes, states).items():
            shown.setdefault(name, [0] * scrapes)[place] = count
    return shown


def _by_scrape(happenings: Iterable[Happening], scrapes: int) -> Iterator[list[ProvedState]]:
    states: list[list[ProvedState]] = [[] for _ in range(scrapes)]
    for each in happenings:
        first = int(each.begins // SCRAPE_S) + 1
        last = int(min(each.ends / SCRAPE_S, scrapes - 1))
        for scrape in range(first, last + 1):
            states[scrape].append(_judged(each, scrape * SCRAPE_S))
    yield from states


def _judged(happening: Happening, second: float) -> ProvedState:
    on, seen = happening.see(second)
    return proved_state(on, node_state(on, None, at(second)), seen, at(second))


def _metrics(nodes: int, states: list[ProvedState]) -> dict[str, int]:
    whose = 'namespace="team",name="scx"'
    buckets = Counter(each.bucket for each in states)
    buckets[Bucket.ATTACHED] += nodes - len(states)
    reasons = Counter(each.reason for each in states if each.bucket is not Bucket.ATTACHED)
    return {f'sked_schedext_nodes{{{whose},bucket="{each}"}}': buckets[each] for each in Bucket} | {
        f'sked_schedext_troubled_nodes{{{whose},reason="{each}"}}': count for each, count in reasons.items()
    }
