"""Chance, apart from the decisions that are told about it."""

from __future__ import annotations

import random

_dice = random.SystemRandom()


def roll() -> float:
    """Some number from 0 up to 1."""
    return _dice.random()
