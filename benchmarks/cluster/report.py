"""What a run found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import median

import msgspec

from benchmarks.cluster.convergence import Convergence
from benchmarks.cluster.fleets import FleetCost
from benchmarks.cluster.sizes import Sizes
from benchmarks.cluster.targets import Outcome, Results, compare, percentile


def render_json(sizes: Sizes, results: Results) -> str:
    """Everything that was measured, and the targets; the names in it stay."""
    outcomes = [asdict(each) | {"met": each.is_met} for each in compare(results)]
    whole = {"sizes": sizes, "targets": outcomes, "results": results}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def render_text(sizes: Sizes, results: Results) -> str:
    """Tables of medians, and the targets, of which the missed ones are marked."""
    parts = (
        _size(sizes),
        "\n".join(_convergences(sizes, results.convergences)),
        "\n".join(_reactions(results)),
        "\n".join(_fleets(sizes, results.fleets)),
        "\n".join(_targets(compare(results))),
    )
    return "\n\n".join(parts)


def _size(sizes: Sizes) -> str:
    return (
        f"{sizes.schedexts} SchedExts; {sizes.nodes} nodes with a pod each; {sizes.samples} reactions; "
        f"medians of {sizes.rounds} rounds (one of the peer with rate limits)"
    )


def _convergences(sizes: Sizes, rounds: Sequence[Convergence]) -> Iterator[str]:
    yield f"{sizes.schedexts} SchedExts at once    DaemonSets    statuses    its CPU    API server's CPU"
    for who in dict.fromkeys(each.who for each in rounds):
        own = [each for each in rounds if each.who == who]
        daemon_sets, statuses, cpu, server = (
            median(values)
            for values in zip(
                *((each.daemon_sets_s, each.statuses_s, each.cpu_s, each.server_cpu_s) for each in own),
                strict=True,
            )
        )
        yield f"  {who:<22} {daemon_sets:>9.2f} s {statuses:>9.2f} s {cpu:>8.2f} s {server:>17.2f} s"


def _reactions(results: Results) -> Iterator[str]:
    yield "one SchedExt at a time         p50         p90         p99        most"
    for who, seconds in results.reactions_s.items():
        figures = (*(percentile(seconds, percent) for percent in (50, 90, 99)), max(seconds))
        yield f"  {who:<22}" + "".join(f" {1000 * figure:>8.1f} ms" for figure in figures)


def _fleets(sizes: Sizes, rounds: Sequence[FleetCost]) -> Iterator[str]:
    yield (
        f"{sizes.nodes} nodes                    sync   CPU for it   RSS   PSS  peak   "
        "CPU for updates   RSS after"
    )
    for who in dict.fromkeys(each.who for each in rounds):
        own = [each for each in rounds if each.who == who]
        sync, sync_cpu, updates = (
            median(values)
            for values in zip(
                *((each.sync_s, each.sync_cpu_s, each.updates_cpu_s) for each in own), strict=True
            )
        )
        rss, pss, peak, after = (
            median(values)
            for values in zip(
                *(
                    (each.memory.rss, each.memory.pss, each.memory.peak, each.memory_after.rss)
                    for each in own
                ),
                strict=True,
            )
        )
        yield (
            f"  {who:<22} {sync:>8.2f} s {sync_cpu:>10.2f} s {rss:>5.0f} {pss:>5.0f} {peak:>5.0f} "
            f"{updates:>15.2f} s {after:>7.0f} MiB"
        )


def _targets(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "target                                                    promised       reached"
    for each in outcomes:
        mark = "      " if each.is_met else "MISSED"
        promised = f"{each.bound} {each.limit:g} {each.unit}"
        yield f"{mark} {each.what:<50} {promised:<15} {each.reached:>6.2f} {each.unit:<4} ({each.evidence})"
