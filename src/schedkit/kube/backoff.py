"""How patient a request is, and when it may be sent again: decisions only, no I/O."""

from __future__ import annotations

import random
from dataclasses import dataclass

from schedkit.kube.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of one call; the whole of it ends by `total_s` whatever happens."""

    attempt_s: float = 15
    total_s: float = 45
    attempts: int = 6
    first_delay_s: float = 0.2
    longest_delay_s: float = 8


def delay_before_retry(
    error: UnavailableError,
    patience: Patience,
    *,
    attempt: int,
    repeatable: bool,
    left_s: float,
    chance: float,
) -> float | None:
    """Seconds until the next attempt after the `attempt`-th failed; None: give up.

    What cannot be repeated (a POST) is sent again only if the server surely did nothing. `chance` is for
    `backoff`.
    """
    if attempt >= patience.attempts or (error.acted and not repeatable):
        return None
    delay_s = error.retry_after_s or backoff(
        attempt, patience.first_delay_s, patience.longest_delay_s, chance
    )
    return delay_s if delay_s < left_s else None


def backoff(failures: int, first_s: float, longest_s: float, chance: float) -> float:
    """A delay that doubles with every failure up to the longest.

    `chance`, from 0 to 1, decides between half of it and all, so that crowds disperse.
    """
    doubled: float = first_s * 2 ** min(failures - 1, 30)
    return min(doubled, longest_s) * (1 + chance) / 2


_dice = random.SystemRandom()


def roll() -> float:
    """Some number from 0 up to 1."""
    return _dice.random()
