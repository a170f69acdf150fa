"""What the operator promises to cost, as ratios to what was measured beside it in the same run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.cluster.contenders import LIMITED_PEER, OURS, PEER
from benchmarks.cluster.convergence import CEILING, Convergence
from benchmarks.cluster.fleets import FleetCost
from benchmarks.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Results:
    """All rounds of one run."""

    convergences: Sequence[Convergence]
    reactions_s: Mapping[str, Sequence[float]]
    fleets: Sequence[FleetCost]


def compare(results: Results) -> tuple[Outcome, ...]:
    """Every target with what was reached, in the order in which they are promised."""
    return (*_speed(results), *_reactions(results), *_memory(results), _updates(results))


def _speed(results: Results) -> tuple[Outcome, ...]:
    def daemon_sets(round_: Convergence) -> float:
        return round_.daemon_sets_s

    def statuses(round_: Convergence) -> float:
        return round_.statuses_s

    def faster(what: str, than: str, times: Callable[[Convergence], float], limit: float) -> Outcome:
        theirs, ours = (_median(results.convergences, who, times) for who in (than, OURS.name))
        return Outcome(what, theirs / ours, "at least", limit, "x", f"{ours:.1f} s, {than} {theirs:.1f} s")

    return (
        faster("all DaemonSets: speed, to the peer with rate limits", LIMITED_PEER.name, daemon_sets, 4),
        faster("all DaemonSets: speed, to the peer without", PEER.name, daemon_sets, 1),
        faster("all DaemonSets: speed, to the API server's own", CEILING, daemon_sets, 0.7),
        faster("all statuses: speed, to the API server's own", CEILING, statuses, 0.7),
    )


def _median(rounds: Sequence[Convergence], who: str, figure: Callable[[Convergence], float]) -> float:
    return median(figure(each) for each in rounds if each.who == who)


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of all values do not exceed."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def _reactions(results: Results) -> tuple[Outcome, ...]:
    def compared(percent: int, limit: float) -> Outcome:
        ours, theirs = (
            1000 * percentile(results.reactions_s[who], percent) for who in (OURS.name, PEER.name)
        )
        evidence = f"{ours:.1f} ms, {PEER.name} {theirs:.1f} ms"
        return Outcome(
            f"reaction to one SchedExt, p{percent}", ours / theirs, "at most", limit, "x", evidence
        )

    return compared(50, 1.2), compared(99, 1)


def _fleet(results: Results, who: str, figure: Callable[[FleetCost], float]) -> float:
    return median(figure(each) for each in results.fleets if each.who == who)


def _memory(results: Results) -> tuple[Outcome, ...]:
    ours, theirs = (_fleet(results, who, lambda cost: cost.memory.rss) for who in (OURS.name, PEER.name))
    evidence = f"{ours:.1f} MiB, {PEER.name} {theirs:.1f} MiB"
    return (
        Outcome("memory (RSS) for the fleet", ours, "at most", 70, "MiB", evidence),
        Outcome("memory (RSS) for the fleet, to the peer's", ours / theirs, "at most", 0.3, "x", evidence),
    )


def _updates(results: Results) -> Outcome:
    ours, theirs = (_fleet(results, who, lambda cost: cost.updates_cpu_s) for who in (OURS.name, PEER.name))
    evidence = f"{ours:.2f} s, {PEER.name} {theirs:.2f} s"
    return Outcome(
        "CPU while every node changes once, to the peer's", ours / theirs, "at most", 0.7, "x", evidence
    )
