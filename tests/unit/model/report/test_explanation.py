"""One node, explained from what could be read."""

from __future__ import annotations

import msgspec
import pytest

from rig.builders.observations import pod, running
from rig.builders.reports import node
from schedkit.model.api.schedextnode import (
    Eligibility,
    NodeExit,
    NodeFinding,
    NodeKernel,
    NodeOwner,
    NodeOwnerKind,
    SchedExtNodeStatus,
)
from schedkit.model.report.explanation import Evidence, explain

MINE = pod("node-1", running(60))
OWNER = NodeOwner(kind=NodeOwnerKind.POD, pod_uid=MINE.metadata.uid)
SAID = SchedExtNodeStatus(
    node_uid="this-node",
    kernel=NodeKernel(boot_id="this-boot"),
    state="enabled",
    ops="rusty",
    owner=OWNER,
    eligible=Eligibility.YES,
)


def said(**other: object) -> SchedExtNodeStatus:
    return msgspec.structs.replace(SAID, **other)


def test_a_proved_owner_is_named_with_its_schedext() -> None:
    found = explain("node-1", Evidence(node(), SAID, (MINE,)))

    assert (found.kernel, found.eligible, found.remarks) == ("the kernel runs rusty", "yes", ())
    assert found.owner.startswith("pod ")
    assert [each.owns_kernel for each in found.occupants] == [True]


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (NodeOwner(kind=NodeOwnerKind.POD, pod_uid="u"), "a pod that no SchedExt owns, u"),
        (
            NodeOwner(kind=NodeOwnerKind.FOREIGN, unit="scx.service"),
            "scx.service, started on the node itself",
        ),
        (NodeOwner(kind=NodeOwnerKind.FOREIGN), "a program without a name, started on the node itself"),
        (NodeOwner(kind=NodeOwnerKind.SCHEDCTL, container_id="c" * 64), "of schedctl"),
        (NodeOwner(kind=NodeOwnerKind.ORPHAN), "no process"),
        (NodeOwner(kind=NodeOwnerKind.UNKNOWN, reason="no CAP_SYS_ADMIN"), "not proved: no CAP_SYS_ADMIN"),
    ],
)
def test_whoever_owns_it_is_named(owner: NodeOwner, words: str) -> None:
    found = explain("node-1", Evidence(node(), said(owner=owner), (MINE,)))

    assert words in found.owner
    assert [each.owns_kernel for each in found.occupants] == [False]


def test_what_may_not_be_read_is_not_called_absent() -> None:
    hidden = explain("node-1", Evidence(None, None, (), frozenset({"node", "report", "pods"})), ("pods",))
    absent = explain("node-1", Evidence())
    half = explain("node-1", Evidence(node(), SAID, (), frozenset({"pods"})))

    assert (hidden.kernel, hidden.remarks) == ("the node's report cannot be seen", ())
    assert hidden.missing_rights == ("pods",)
    assert absent.kernel == "no agent has reported what the kernel runs"
    assert absent.remarks == ("the node is not in the cluster",)
    assert half.owner.endswith("whose pod it is cannot be seen")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (Evidence(node(ready=False), SAID), "the node is not Ready: what is known may be old"),
        (Evidence(node(boot="another"), SAID), "the report is about an earlier boot of the node"),
        (Evidence(node(uid="another"), SAID), "the report is about an earlier Node of that name"),
    ],
)
def test_what_makes_a_report_doubtful_is_said(seen: Evidence, words: str) -> None:
    assert explain("node-1", seen).remarks == (words,)


def test_a_node_that_does_not_say_its_boot_is_compared_with_nothing() -> None:
    assert explain("node-1", Evidence(node(boot=""), SAID)).remarks == ()


def test_failed_checks_and_the_newest_end_come_first_and_on_one_line() -> None:
    ends = (NodeExit(ops="old", kind=64), NodeExit(ops="new", kind=1026, message="a\x1b[31m\nb", count=2))
    failed = (NodeFinding(id="kernel.btf", status="fail", detail="there is none"),)
    report = said(eligible=Eligibility.NO, findings=failed, exits=ends)

    found = explain("node-1", Evidence(node(), report))

    assert found.eligible == "no (kernel.btf: there is none)"
    assert "new ended" in found.exits[0]
    assert "2 times" in found.exits[0]
    assert all(each.isprintable() for each in found.exits)
