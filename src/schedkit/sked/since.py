"""Since when something has been as it is, by the clock of this process alone.

Dates in objects are by the clocks of others: of nodes and of the control plane. None of them is subtracted
from ours. A manager that starts anew waits anew, for some minutes at most; but what the status says already
about silent agents stands (`model.report.fleet`).
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple


class Wait(Enum):
    """What is waited for."""

    AGENT = auto()  # a node's agent was ready, and is not
    FIRST_WORD = auto()  # a node's agent has not been ready since this process looks
    ATTACHMENT = auto()  # a pod's container runs, and is not attached
    STRANGER = auto()  # a node's report names a pod that is not known
    JOINING = auto()  # a node is new
    REBOOT = auto()  # a node has another boot than its report


class _Fact(NamedTuple):
    value: Hashable
    since: datetime


class Since:
    """The facts that were seen last, each with the moment when it was first seen."""

    def __init__(self) -> None:
        self._facts: dict[tuple[Wait, str], _Fact] = {}

    def __len__(self) -> int:
        return len(self._facts)

    def see(self, wait: Wait, whose: str, value: Hashable, now: datetime) -> datetime | None:
        """Since when it has had that value; None as a value: the wait is over, and forgotten."""
        if value is None:
            self._facts.pop((wait, whose), None)
            return None
        known = self._facts.get((wait, whose))
        if known is None or known.value != value:
            known = self._facts[wait, whose] = _Fact(value, now)
        return known.since

    def known(self, wait: Wait, whose: str) -> datetime | None:
        """Since when it is waited for; None: it is not."""
        fact = self._facts.get((wait, whose))
        return fact.since if fact else None

    def forget(self, whose: str) -> None:
        """The node, or the pod, is gone."""
        for wait in Wait:
            self._facts.pop((wait, whose), None)
