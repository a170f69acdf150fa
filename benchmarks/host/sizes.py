"""How often things are measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Medians count; 0 leaves a part out."""

    starts: int = 40  # of each command on this machine
    rounds: int = 3  # of everything in the virtual machine
