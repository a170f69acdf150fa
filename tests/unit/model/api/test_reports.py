"""What the manager reads of a report is what the agent writes into it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import inspect

from schedkit.model.api.reports import Report
from schedkit.model.api.schedextnode import (
    NodeExit,
    NodeOwner,
    NodeOwnerKind,
    SchedExtNode,
    SchedExtNodeStatus,
)


def fields(kind: type, path: str = "") -> Iterator[str]:
    """The path of each field, as the API spells it."""
    for field in inspect.type_info(kind).fields:  # type: ignore[attr-defined]  # of a Struct
        yield f"{path}.{field.encode_name}"
        types = getattr(field.type, "types", [field.type])
        for each in types:
            if isinstance(each, inspect.StructType):
                yield from fields(each.cls, f"{path}.{field.encode_name}")


def test_every_field_of_the_narrow_type_is_one_of_the_whole() -> None:
    assert set(fields(Report)) < set(fields(SchedExtNode))


def test_what_an_agent_writes_is_read() -> None:
    owner = NodeOwner(kind=NodeOwnerKind.POD, name="pod", pod_uid="uid")
    written = SchedExtNodeStatus(state="enabled", owner=owner, exits=(NodeExit(kind=1026),))

    read = msgspec.json.decode(msgspec.json.encode(SchedExtNode(status=written)), type=Report).status

    assert read is not None
    assert (read.state, read.owner.kind, read.owner.pod_uid) == ("enabled", NodeOwnerKind.POD, "uid")
    assert read.exits == written.exits
