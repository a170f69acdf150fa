"""Refusals of the model, as users are told problems."""

from __future__ import annotations

from typing import TypeVar

from schedkit.model.host.actions import Refused
from schedkit.schedctl.problems.problem import Problem

Decision = TypeVar("Decision")


def decided(decision: Decision | Refused) -> Decision:
    """The decision; a refusal is told as a problem."""
    if isinstance(decision, Refused):
        raise problem(decision)
    return decision


def problem(refused: Refused) -> Problem:
    """The problem that a user is told of."""
    return Problem(refused.what, why=refused.why, remedy=refused.remedy)
