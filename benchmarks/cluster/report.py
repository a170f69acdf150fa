"""What a run found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

import msgspec

from benchmarks import outcomes
from benchmarks.cluster.convergence import Convergence
from benchmarks.cluster.fleets import FleetCost
from benchmarks.cluster.sizes import Sizes
from benchmarks.cluster.targets import Results, compare, percentile


def render_json(sizes: Sizes, results: Results) -> str:
    """Everything that was measured, and the targets; the names in it stay."""
    whole = {"sizes": sizes, "targets": outcomes.as_plain(compare(results)), "results": results}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def render_text(sizes: Sizes, results: Results) -> str:
    """Tables of medians, and the targets, of which the missed ones are marked."""
    parts = (
        _size(sizes),
        "\n".join(_convergences(sizes, results.convergences)),
        "\n".join(_reactions(results)),
        "\n".join(_fleets(sizes, results.fleets)),
        "\n".join(outcomes.render(compare(results))),
    )
    return "\n\n".join(parts)


def _size(sizes: Sizes) -> str:
    return (
        f"{sizes.schedexts} SchedExts; {sizes.nodes} nodes with a pod, an agent and a report each; "
        f"{sizes.samples} reactions; medians of {sizes.rounds} rounds (one of the peer with rate limits)"
    )


def _convergences(sizes: Sizes, rounds: Sequence[Convergence]) -> Iterator[str]:
    yield f"{sizes.schedexts} SchedExts at once"
    yield _row("", "DaemonSets", "statuses", "own CPU", "server CPU", "writes")
    for who in _names(rounds):
        figures = _medians(
            (each.daemon_sets_s, each.statuses_s, each.cpu_s, each.server_cpu_s, each.writes)
            for each in rounds
            if each.who == who
        )
        *times, writes = figures
        yield _row(who, *(f"{seconds:.2f} s" for seconds in times), f"{writes:.0f}")


def _reactions(results: Results) -> Iterator[str]:
    yield "one SchedExt at a time, until its DaemonSet is seen"
    yield _row("", "p50", "p90", "p99", "most")
    for who, seconds in results.reactions_s.items():
        figures = (*(percentile(seconds, percent) for percent in (50, 90, 99)), max(seconds))
        yield _row(who, *(f"{1000 * figure:.1f} ms" for figure in figures))


def _fleets(sizes: Sizes, rounds: Sequence[FleetCost]) -> Iterator[str]:
    nodes, schedexts = sizes.nodes, sizes.schedexts
    yield f"{nodes} nodes, each with a scheduler's pod, an agent and a report; {schedexts} SchedExts"
    yield _row("", "sync", "sync CPU", "update CPU", "report CPU", "RSS", "PSS", "peak", "RSS after")
    for who in _names(rounds):
        own = [each for each in rounds if each.who == who]
        times = _medians(
            (each.sync_s, each.sync_cpu_s, each.updates_cpu_s, each.reports_cpu_s) for each in own
        )
        sizes_mib = _medians(
            (each.memory.rss, each.memory.pss, each.memory_after.peak, each.memory_after.rss) for each in own
        )
        yield _row(who, *(f"{each:.2f} s" for each in times), *(f"{each:.1f} MiB" for each in sizes_mib))


def _names(rounds: Sequence[Convergence] | Sequence[FleetCost]) -> list[str]:
    """Each contender once, in the order of first rounds."""
    return list(dict.fromkeys(each.who for each in rounds))


def _medians(rows: Iterable[tuple[float, ...]]) -> list[float]:
    """The median of each column."""
    return [median(column) for column in zip(*rows, strict=True)]


def _row(who: str, *cells: str) -> str:
    return f"  {who:<22}" + "".join(f"{cell:>12}" for cell in cells)
