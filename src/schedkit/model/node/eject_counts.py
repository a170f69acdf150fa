"""How often schedulers were ejected: what the agent's metric `sked_node_ejects_total` counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from schedkit.model.api.schedextnode import NodeExit
from schedkit.model.kernel.log import ExitKind


class EjectCounts(NamedTuple):
    """Every eject once, from one report to the next.

    Before the first report nothing was told: what the log held from before the agent's start counts as well.
    """

    by_kind: Mapping[int, int] = MappingProxyType({})  # by the kernel's numbers for them
    told: tuple[NodeExit, ...] = ()  # by the last report

    def after(self, exits: tuple[NodeExit, ...]) -> EjectCounts:
        """With what is new in another report."""
        return EjectCounts(Counter(self.by_kind) + new_ejects(self.told, exits), exits)


def new_ejects(before: Iterable[NodeExit], now: Iterable[NodeExit]) -> Counter[int]:
    """The ejects that are new in a report, by the kernel's numbers for them."""
    known = {_entry(each): each.count for each in before}
    grown = ((each.kind, each.count - known.get(_entry(each), 0)) for each in now)
    found: Counter[int] = Counter()
    for kind, count in grown:
        if kind >= ExitKind.ERROR and count > 0:
            found[kind] += count
    return found


def _entry(ended: NodeExit) -> tuple[object, ...]:
    """What stays the same of an entry, however often its end is repeated."""
    return ended.ops, ended.kind, ended.owner, ended.pod_uid, ended.first_time
