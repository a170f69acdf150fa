"""How big the benchmark is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that the targets speak of, unless told otherwise."""

    schedexts: int = 1000
    nodes: int = 5000  # each runs the pod of one SchedExt and an agent, and has a report
    samples: int = 200  # reactions, for each contender
    rounds: int = 3  # of everything but the slowest contender; medians count
    rest_s: float = 30  # between a full cache and a look at its memory
