"""Which nodes still run what was stopped."""

from __future__ import annotations

import pytest

from rig.builders.reports import attached, of_pod, report
from schedkit.model.api.reports import ReportOwner, ReportStatus
from schedkit.model.api.schedextnode import NodeOwnerKind
from schedkit.model.report.stopping import remaining, unwitnessed

RAN = {"pod-1": "node-1", "pod-2": "node-2", "pod-3": "node-3"}
UNPROVED = ReportOwner(kind=NodeOwnerKind.UNKNOWN)
ORPHANED = ReportOwner(kind=NodeOwnerKind.ORPHAN)


def test_a_kernel_that_runs_it_counts_more_than_a_pod_that_is_gone() -> None:
    reports = {"node-1": attached(of_pod("pod-1")), "node-2": report(), "node-3": report()}

    left = remaining(RAN, {"pod-2"}, reports)

    assert [(each.node, each.reason) for each in left] == [
        ("node-1", "its kernel still runs the scheduler"),
        ("node-2", "its pod is not gone yet"),
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(attached(of_pod("another")), "", id="it runs somebody else's"),
        pytest.param(report(), "", id="it runs none"),
        pytest.param(attached(UNPROVED), "it is not proved whose", id="it is not known whose"),
        pytest.param(attached(ORPHANED), "it is not proved whose", id="the kernel keeps it by itself"),
        pytest.param(
            report(state="disabling", owner=of_pod("pod-1")), "still runs", id="it is about to end it"
        ),
    ],
)
def test_a_node_without_its_pod_has_ended_it_if_its_kernel_says_so(said: ReportStatus, words: str) -> None:
    left = remaining({"pod-1": "node-1"}, (), {"node-1": said})

    assert bool(left) == bool(words)
    assert words in "".join(each.reason for each in left)


def test_what_cannot_be_seen_has_not_ended() -> None:
    left = remaining({"pod-1": "node-1"}, None, {"node-1": report()})

    assert [each.reason for each in left] == ["it cannot be seen whether its pod is gone"]


def test_nodes_whose_kernels_were_not_proved_to_run_it_are_named() -> None:
    before = {"node-1": attached(UNPROVED), "node-2": attached(of_pod("pod-2")), "node-3": report()}

    assert unwitnessed(RAN, before) == ("node-1", "node-3")
