"""Ejects are counted once, however reports merge and forget them."""

from __future__ import annotations

import datetime as dt
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from schedkit.model.api.schedextnode import NodeExit, NodeOwner, NodeOwnerKind
from schedkit.model.kernel.log import Exit, ExitKind
from schedkit.model.node.eject_counts import EjectCounts, new_ejects
from schedkit.model.node.exits import with_exit

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KINDS = st.sampled_from([ExitKind.UNREG, ExitKind.SYSRQ, ExitKind.ERROR, ExitKind.ERROR_STALL])


@given(ends=st.lists(st.tuples(st.sampled_from("ab"), KINDS), max_size=60), looks=st.integers(1, 5))
def test_each_eject_is_counted_once_and_nothing_else(ends: list[tuple[str, ExitKind]], looks: int) -> None:
    counted = EjectCounts()
    exits: tuple[NodeExit, ...] = ()
    for number, (ops, kind) in enumerate(ends):
        at = START + dt.timedelta(seconds=number)
        exits = with_exit(exits, Exit(ops, kind, "", "", number, number), at)
        if number % looks == 0 or number == len(ends) - 1:
            counted = counted.after(exits)

    assert counted.by_kind == Counter(int(kind) for _, kind in ends if kind >= ExitKind.ERROR)


def test_what_was_reported_before_is_not_new() -> None:
    exits = with_exit((), Exit("a", ExitKind.ERROR, "", "", 1, 1), START)

    assert new_ejects((), exits) == Counter({1024: 1})
    assert new_ejects(exits, exits) == Counter()


def test_ejects_of_two_pods_within_one_second_are_two() -> None:
    eject = Exit("a", ExitKind.ERROR, "", "", 1, 1)
    first = with_exit((), eject, START, NodeOwner(kind=NodeOwnerKind.POD, pod_uid="one"))
    both = with_exit(first, eject, START, NodeOwner(kind=NodeOwnerKind.POD, pod_uid="other"))

    assert new_ejects(first, both) == Counter({1024: 1})
