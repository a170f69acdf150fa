"""Targets, and what a run reached of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Outcome:
    """One target and what was reached."""

    what: str
    reached: float
    bound: Literal["at least", "at most"]
    limit: float
    unit: str  # "x" for a ratio
    evidence: str  # the figures behind it

    @property
    def is_met(self) -> bool:
        """Whether the promise holds, at the precision in which it is printed."""
        reached = round(self.reached, 2)
        return reached >= self.limit if self.bound == "at least" else reached <= self.limit


def as_plain(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """For programs; the names stay."""
    return [asdict(each) | {"met": each.is_met} for each in outcomes]


def render(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """For people: a line for each, of which the missed ones are marked."""
    yield "targets"
    for each in outcomes:
        mark = "" if each.is_met else "MISSED"
        promised = f"{each.bound} {each.limit:g} {each.unit}"
        reached = f"{each.reached:.2f} {each.unit}"
        yield f"  {mark:<6} {each.what:<52} {promised:<16} reached {reached:<10} ({each.evidence})"
