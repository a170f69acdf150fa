"""What each node's kernel is proved to run: a table of checks, of which the first that speaks decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from schedkit.model.api.conditions import Reason
from schedkit.model.api.pods import Pod
from schedkit.model.report.believed_reports import Evidence, evidence_of
from schedkit.model.report.kernel_checks import (
    BROKEN,
    ProvedState,
    human_stopped_it,
    it_is_being_attached,
    it_is_not_attached,
    kernel_cannot_be_read,
    kernel_cannot_run_any,
    kernel_ejected_it,
    kernel_restarts_it,
    kernel_runs_another,
    kernel_runs_it,
    nobody_says,
    node_has_just_joined,
    node_is_silent,
    owner_is_not_proved,
    owner_is_not_seen_yet,
    pod_does_not_run,
    pod_is_broken,
    predecessor_still_runs,
)
from schedkit.model.report.pod_checks import Bucket, NodeState
from schedkit.model.report.sights import Sight

Check = Callable[[Evidence], ProvedState | None]


def proved_state(pod: Pod, said: NodeState, sight: Sight, now: datetime) -> ProvedState:
    """The state of the kernel of the pod's node."""
    evidence = evidence_of(pod, said, sight, now)
    for row in TABLE:
        finding = row.check(evidence)
        if finding is not None:
            return finding
    raise AssertionError("the last check finds something on every node")


def without_a_pod(said: NodeState) -> ProvedState:
    """The state of a node on which no pod could speak."""
    return ProvedState(said.node, said.bucket, said.reason, said.message)


class Row(NamedTuple):
    """A check, and what it finds when: the documentation shows these."""

    check: Check
    when: str
    finds: dict[Reason, Bucket]


# the order is the specification: of several rows that are true of a node, the first counts
TABLE: tuple[Row, ...] = (
    Row(
        kernel_runs_it,
        "by a good report, the pod owns what the kernel runs",
        {Reason.ATTACHED: Bucket.ATTACHED},
    ),
    Row(
        kernel_cannot_run_any,
        "by a good report, the kernel has no sched_ext or no BTF",
        {Reason.INELIGIBLE: Bucket.INELIGIBLE},
    ),
    Row(
        pod_is_broken,
        "the pod cannot run on any kernel",
        dict.fromkeys(sorted(BROKEN), Bucket.FAILED) | {Reason.POD_PENDING: Bucket.STARTING},
    ),
    Row(
        predecessor_still_runs,
        "by a good report, the kernel runs the scheduler of an earlier pod of the same DaemonSet",
        {Reason.ATTACHING: Bucket.STARTING},
    ),
    Row(
        owner_is_not_seen_yet,
        "by a good report, the kernel runs the scheduler of a pod that has been unknown for less than 30 s",
        {Reason.ATTACHING: Bucket.STARTING},
    ),
    Row(
        kernel_runs_another,
        "by a good report, the kernel runs a scheduler of somebody else, who is named; other tenants are not",
        {Reason.CONFLICTED: Bucket.CONFLICTED},
    ),
    Row(
        human_stopped_it,
        "by a good report, nothing is attached, and SysRq-S ended the pod's scheduler last",
        {Reason.STOPPED_BY_HUMAN: Bucket.FAILED},
    ),
    Row(
        kernel_ejected_it,
        "by a good report, nothing is attached, and the kernel ejected the pod's scheduler last",
        {Reason.EJECTED: Bucket.FAILED},
    ),
    Row(
        pod_does_not_run,
        "the pod's container does not run",
        {Reason.CRASHING: Bucket.FAILED, Reason.POD_STARTING: Bucket.STARTING},
    ),
    Row(
        node_is_silent,
        "there is no good report, and the node is gone or not Ready",
        {Reason.NODE_SILENT: Bucket.UNKNOWN},
    ),
    Row(
        node_has_just_joined,
        "there is no good report, and the node joined less than five minutes ago",
        {Reason.NODE_JOINING: Bucket.STARTING},
    ),
    Row(
        nobody_says,
        "there is no good report",
        {
            Reason.REPORT_UNREADABLE: Bucket.UNKNOWN,
            Reason.AGENT_MISSING: Bucket.UNKNOWN,
            Reason.AGENT_SILENT: Bucket.UNKNOWN,
            Reason.REPORT_MISSING: Bucket.UNKNOWN,
            Reason.OTHER_NODE: Bucket.UNKNOWN,
            Reason.OTHER_BOOT: Bucket.UNKNOWN,
        },
    ),
    Row(
        kernel_cannot_be_read,
        "the agent may not read the kernel's state, or does not understand it",
        {Reason.KERNEL_UNREADABLE: Bucket.UNKNOWN},
    ),
    Row(
        owner_is_not_proved,
        "by a good report, the kernel runs a scheduler whose owner is not proved",
        {Reason.OWNER_UNPROVED: Bucket.UNKNOWN},
    ),
    Row(
        kernel_restarts_it,
        "a CPU came or went, and the pod's container has run for less than five minutes since",
        {Reason.REATTACHING: Bucket.STARTING},
    ),
    Row(
        it_is_being_attached,
        "the pod's container has run for less than five minutes without being attached",
        {Reason.ATTACHING: Bucket.STARTING},
    ),
    Row(
        it_is_not_attached,
        "the pod's container has run for five minutes without being attached",
        {Reason.NOT_ATTACHED: Bucket.FAILED},
    ),
)
