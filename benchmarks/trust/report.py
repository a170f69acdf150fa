"""What a run found, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import msgspec

from benchmarks.trust.costs import Cost
from benchmarks.trust.targets import KEPT, LOADING, NOTHING, OURS, THEIRS, Outcome, compare, medians


def render_json(rounds: int, costs: Sequence[Cost]) -> str:
    """Everything that was measured, and the targets; the names in it stay."""
    outcomes = [asdict(each) | {"met": each.is_met} for each in compare(costs)]
    whole = {"rounds": rounds, "targets": outcomes, "results": list(costs)}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def render_text(rounds: int, costs: Sequence[Cost]) -> str:
    """A table of medians, and the targets, of which the missed ones are marked."""
    head = f"one image, one registry, one trusted root; medians of {rounds} rounds"
    rows = [_row("", "processor", "time"), *(_figures(medians(costs, who)) for who in _ORDER)]
    return "\n".join([head, "", *rows, "", "targets", *map(_target, compare(costs))])


_ORDER = (OURS, THEIRS, NOTHING, LOADING, KEPT)


def _figures(cost: Cost) -> str:
    return _row(cost.who, f"{1000 * cost.cpu_s:.1f} ms", f"{1000 * cost.wall_s:.1f} ms")


def _row(who: str, *cells: str) -> str:
    return f"  {who:<26}" + "".join(f"{cell:>12}" for cell in cells)


def _target(each: Outcome) -> str:
    mark = "" if each.is_met else "MISSED"
    reached = f"{each.reached:.2f} {each.unit}"
    promised = f"at most {each.limit:g} {each.unit}"
    return f"  {mark:<6} {each.what:<52} {promised:<16} reached {reached:<10} ({each.evidence})"
