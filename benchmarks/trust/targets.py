"""What verification promises to cost, beside what cosign cost in the same run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.trust.costs import Cost

OURS, THEIRS, KEPT = "schedctl verify", "cosign verify", "a kept verdict"
NOTHING, LOADING = "python, doing nothing", "python, loading libraries"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One target and what was reached."""

    what: str
    reached: float
    limit: float
    unit: str  # "x" for a ratio
    evidence: str  # the figures behind it

    @property
    def is_met(self) -> bool:
        """Whether the promise holds, at the precision in which it is printed."""
        return round(self.reached, 2) <= self.limit


def compare(costs: Sequence[Cost]) -> tuple[Outcome, ...]:
    """Every target with what was reached, in the order in which they are promised."""
    kept = 1000 * medians(costs, KEPT).cpu_s
    return (
        _ratio("cold keyless verification: processor, to cosign's", costs, lambda cost: cost.cpu_s),
        _ratio("cold keyless verification: time, to cosign's", costs, lambda cost: cost.wall_s),
        Outcome("what a kept verdict adds to a command", kept, 20, "ms", f"{kept:.1f} ms of the processor"),
    )


def medians(costs: Sequence[Cost], who: str) -> Cost:
    """The median of each figure; a round in which the machine did something else does not count."""
    own = [cost for cost in costs if cost.who == who]
    return Cost(who, median(cost.cpu_s for cost in own), median(cost.wall_s for cost in own))


def _ratio(what: str, costs: Sequence[Cost], figure: Callable[[Cost], float]) -> Outcome:
    ours, theirs = (figure(medians(costs, who)) for who in (OURS, THEIRS))
    evidence = f"{1000 * ours:.0f} ms, {THEIRS} {1000 * theirs:.0f} ms"
    return Outcome(what, ours / theirs, 1.5, "x", evidence)
