"""Which nodes still run what was stopped."""

from __future__ import annotations

from rig.builders.reports import attached, of_pod, report
from schedkit.model.report.stopping import remaining, unreported

RAN = {"pod-1": "node-1", "pod-2": "node-2", "pod-3": "node-3"}


def test_a_kernel_that_runs_it_counts_more_than_a_pod_that_is_gone() -> None:
    reports = {"node-1": attached(of_pod("pod-1")), "node-2": report(), "node-3": report()}

    left = remaining(RAN, {"pod-2"}, reports)

    assert [(each.node, each.reason) for each in left] == [
        ("node-1", "its kernel still runs the scheduler"),
        ("node-2", "its pod is not gone yet"),
    ]


def test_a_kernel_that_runs_somebody_elses_has_ended_ours() -> None:
    assert remaining({"pod-1": "node-1"}, (), {"node-1": attached(of_pod("another"))}) == ()


def test_nodes_that_nobody_speaks_for_are_named() -> None:
    assert unreported(RAN, {"node-2": report()}) == ("node-1", "node-3")
