"""`python -m benchmarks.cluster.claims`: how long it takes to decide who owns every node of a fleet.

From scratch, in one process, without an API server. Printed is CPU time, the best of five.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from schedkit.model.api.reports import ReportKernel, ReportOwner, ReportStatus
from schedkit.model.api.schedextnode import Eligibility, NodeOwnerKind
from schedkit.model.claims.candidates import Candidate, Limits, Template, claim_of
from schedkit.model.claims.claim import Ground, claim_on
from schedkit.model.claims.decision import Sights, decide
from schedkit.model.claims.sites import Site, SitePod
from schedkit.model.claims.worklist import worklist

_NOW = datetime(2026, 3, 1, tzinfo=UTC)
_TARGET_MS = 100.0
_ZONES = 50


def main() -> None:
    """Print the times of fleets of several sizes and kinds."""
    for nodes in (1_000, 5_000, 20_000, 100_000):
        _tell(nodes, 50, "50 zones, one SchedExt each", _by_zone(nodes, 50))
    _tell(5_000, 50, "all want all nodes, half of them change owner", _all_want_all(5_000, 50))
    _tell(5_000, 50, "chosen by labels that each node has for itself", _by_name(5_000, 50))
    _tell_single(_by_zone(5_000, 50))


def _tell(nodes: int, schedexts: int, kind: str, seen: Sights) -> None:
    decided = _best(lambda: decide(seen))
    decision = decide(seen)
    listed = _best(lambda: worklist(decision))
    verdict = f" (target {_TARGET_MS:.0f} ms)" if nodes == 5_000 else ""
    writes = len(worklist(decision))
    print(f"{nodes:7} nodes x {schedexts} SchedExts, {kind}: decide {decided:.1f} ms{verdict}, "
          f"worklist {listed:.1f} ms, {writes} writes")  # fmt: skip


def _tell_single(seen: Sights) -> None:
    """What a changed node costs, where the candidates are indexed already."""
    decision = decide(seen)
    ground = Ground(decision.contests, decision.intents, seen.now)
    site = msgspec.structs.replace(seen.sites[7], label="none")
    print(f"one node's change: {_best(lambda: claim_on(site, ground)):.3f} ms (target 1 ms)")


def _best(action: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        gc.collect()
        begin = time.process_time()
        action()
        times.append(time.process_time() - begin)
    return min(times) * 1000


def _candidate(number: int, template: Template, **given: int | dict[str, str]) -> Candidate:
    name = f"scx-{number}"
    made = _NOW - timedelta(days=number + 1)
    selector = given.pop("selector", {})
    assert isinstance(selector, dict)  # noqa: S101 - for the type checker
    priority = given.pop("priority", 0)
    assert isinstance(priority, int)  # noqa: S101 - as above
    claim = claim_of("default", name)
    return Candidate(
        claim, "default", name, created=made, template=template, selector=selector, priority=priority
    )


def _site(number: int, owner: Candidate, **labels: str) -> Site:
    name = f"node-{number:06}"
    pod = SitePod(owner.claim, f"pod-{number}")
    known = {f"example.com/label-{each}": f"value-{each}" for each in range(15)}
    whose = ReportOwner(kind=NodeOwnerKind.POD, pod_uid=pod.uid)
    kernel = ReportKernel(boot_id=f"boot-{number}")
    said = ReportStatus(state="enabled", owner=whose, kernel=kernel, eligible=Eligibility.YES)
    label = owner.claim if owner.template is Template.CLOSED else None
    return Site(name, name, {**known, **labels}, label=label, pods=(pod,), report=said)


def _by_zone(nodes: int, schedexts: int) -> Sights:
    some = [_candidate(number, Template.OPEN, selector={"zone": f"z{number}"}) for number in range(schedexts)]
    sites = (_site(each, some[each % schedexts], zone=f"z{each % _ZONES}") for each in range(nodes))
    return Sights(tuple(some), tuple(sites), _NOW)


def _all_want_all(nodes: int, schedexts: int) -> Sights:
    first = _candidate(0, Template.OPEN)
    others = [_candidate(number, Template.CLOSED, priority=number == 1) for number in range(1, schedexts)]
    sites = (_site(each, first if each % 2 else others[0]) for each in range(nodes))
    return Sights((first, *others), tuple(sites), _NOW, Limits(ceiling=10))


def _by_name(nodes: int, schedexts: int) -> Sights:
    """Fifty choose a node each by its name, and the oldest has the rest."""
    rest = _candidate(schedexts, Template.OPEN)
    named = [
        _candidate(number, Template.CLOSED, priority=1, selector={"host": f"h{number}"})
        for number in range(schedexts - 1)
    ]
    sites = (
        _site(each, named[each] if each < len(named) else rest, host=f"h{each}") for each in range(nodes)
    )
    return Sights((rest, *named), tuple(sites), _NOW, Limits(ceiling=1))


if __name__ == "__main__":
    main()
