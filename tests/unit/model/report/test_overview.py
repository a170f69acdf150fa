"""SchedExts at a glance."""

from __future__ import annotations

import msgspec
import pytest

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
from schedkit.model.report.overview import Listed, overview


def listed(written: SchedExt) -> Listed:
    """As the API server gives it to whoever lists."""
    return msgspec.json.decode(msgspec.json.encode(written), type=Listed)


def told(name: str, **status: object) -> Listed:
    return listed(msgspec.structs.replace(schedext(name), status=SchedExtStatus(**status)))  # type: ignore[arg-type]


def test_one_that_nobody_has_looked_at_is_unknown() -> None:
    (entry,) = overview([listed(schedext("new"))]).items

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

    first, second = overview([seen, listed(schedext("a"))]).items

    assert (first.name, second.name) == ("a", "b")
    assert (second.ready, second.reason, second.attached, second.desired) == ("False", "Ejected", 2, 9)
    assert (second.message, second.troubled[0].name, second.more_troubled) == ("1 of 9 nodes", "node-1", 6)
    assert second.troubled[0].message.isprintable()


def test_words_of_a_newer_operator_are_shown_as_they_are() -> None:
    """One SchedExt with such a word must not hide the others."""
    spec = {"sched": "img", "securityProfile": "Sealed", "hostMounts": ["Moon"]}
    conditions = [{"type": "Ready", "status": "Perhaps", "reason": "New", "message": "words"}]
    written = {
        "metadata": {"name": "new", "namespace": "ns"},
        "spec": spec,
        "status": {"conditions": conditions},
    }

    (entry,) = overview([msgspec.convert(written, Listed)]).items

    assert (entry.name, entry.sched, entry.ready, entry.reason) == ("new", "img", "Perhaps", "New")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(written, SchedExt)
