"""How often schedulers were ejected, from one report to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from schedkit.model.api.schedextnode import NodeExit
from schedkit.model.kernel.log import ExitKind


def new_ejects(before: Iterable[NodeExit], now: Iterable[NodeExit]) -> Counter[int]:
    """The ejects that are new in a report, by the kernel's numbers for them."""
    known = {_entry(each): each.count for each in before}
    grown = ((each.kind, each.count - known.get(_entry(each), 0)) for each in now)
    found: Counter[int] = Counter()
    for kind, count in grown:
        if kind >= ExitKind.ERROR and count > 0:
            found[kind] += count
    return found


def _entry(ended: NodeExit) -> tuple[str, int, datetime | None]:
    """What stays the same of an entry, however often its end is repeated."""
    return ended.ops, ended.kind, ended.first_time
