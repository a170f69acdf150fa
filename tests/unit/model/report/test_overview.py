"""SchedExts at a glance."""

from __future__ import annotations

import msgspec

from rig.builders.observations import schedext
from schedkit.model.api.schedext import (
    Condition,
    ConditionStatus,
    NodeCounts,
    NodeTrouble,
    SchedExt,
    SchedExtStatus,
    TroubleKind,
)
from schedkit.model.report.overview import overview


def told(name: str, **status: object) -> SchedExt:
    return msgspec.structs.replace(schedext(name), status=SchedExtStatus(**status))  # type: ignore[arg-type]


def test_one_that_nobody_has_looked_at_is_unknown() -> None:
    (entry,) = overview([schedext("new")]).items

    assert (entry.ready, entry.desired, entry.attached) == ("Unknown", 0, 0)
    assert entry.message == "no manager has looked at it yet"


def test_the_troubled_are_named_and_the_rest_counted() -> None:
    ready = Condition(type="Ready", status=ConditionStatus.FALSE, reason="Ejected", message="1 of 9\nnodes")
    seen = told(
        "b",
        conditions=(ready,),
        nodes=NodeCounts(desired=9, attached=2),
        worst_nodes=(NodeTrouble(name="node-1", reason="Ejected", message="a\x1bb"),),
        troubles=(TroubleKind(reason="Ejected", nodes=7, example="node-1"),),
    )

    first, second = overview([seen, schedext("a")]).items

    assert (first.name, second.name) == ("a", "b")
    assert (second.ready, second.reason, second.attached, second.desired) == ("False", "Ejected", 2, 9)
    assert (second.message, second.troubled[0].name, second.more_troubled) == ("1 of 9 nodes", "node-1", 6)
    assert second.troubled[0].message.isprintable()
