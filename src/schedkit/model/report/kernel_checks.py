"""The checks of the kernel table: each finds one state of a node's kernel, or nothing.

A check trusts the evidence that it is given: whether the node's report is good was decided before.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from schedkit.model.api.conditions import Reason
from schedkit.model.api.pods import Pod
from schedkit.model.api.reports import ReportStatus
from schedkit.model.api.schedextnode import Eligibility, NodeExit, NodeOwnerKind
from schedkit.model.report.believed_reports import (
    ATTACHING_LASTS,
    JOINING_LASTS,
    STRANGER_LASTS,
    Evidence,
    changes_at,
    distrust,
)
from schedkit.model.report.pod_checks import Bucket, shortened
from schedkit.model.report.sights import EJECT, is_attached, is_enabled

_SYSRQ, _RESTARTED_BY_KERNEL = 67, 66  # the kernel's numbers for ends
_STATES = frozenset({"enabled", "enabling", "disabled", "disabling", "absent"})  # the kernel's own words
_NOTHING_RUNS = frozenset({"disabled", "disabling"})
_DECISIVE = ("kernel.sched_ext", "kernel.btf")
# no kernel could run the scheduler of such a pod
BROKEN = frozenset(
    {
        Reason.PRIVILEGES_REMOVED,
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_REFUSED,
        Reason.POD_FAILED,
        Reason.POD_PENDING,
    }
)
_NOT_RUNNING = frozenset({Reason.CRASHING, Reason.POD_STARTING})


class ProvedState(msgspec.Struct, frozen=True, gc=False):
    """What is known about the kernel of one node that should run the scheduler."""

    node: str  # empty: the pod has no node yet, or there is no pod
    bucket: Bucket
    reason: Reason
    message: str
    is_excused: bool = False  # does not keep Ready from being True
    is_updated: bool = False  # attached, by a pod of the current template
    changes_at: datetime | None = None  # None: not by waiting alone


def proved(evidence: Evidence, bucket: Bucket, reason: Reason, message: str) -> ProvedState:
    """The state of the evidence's node, with what follows for Ready, and when it changes by itself."""
    is_excused = bucket is Bucket.INELIGIBLE or _is_excused(evidence)
    node = evidence.pod.spec.node_name
    return ProvedState(node, bucket, reason, message, is_excused, changes_at=changes_at(evidence))


def _is_excused(evidence: Evidence) -> bool:
    """Of a big fleet one node is always down, and one is new: those do not keep Ready from being True."""
    if not evidence.pod.spec.node_name:
        return False
    node, sight = evidence.sight.node, evidence.sight
    is_leaving = node is None or not node.is_ready or node.metadata.deletion_timestamp is not None
    return is_leaving or evidence.is_younger(sight.joined_at, JOINING_LASTS)


# What a good report says


def kernel_runs_it(evidence: Evidence) -> ProvedState | None:
    """The proof, whatever the pod says, and whatever template it is made from."""
    report = evidence.report
    if report is None or not is_attached(report, evidence.pod) or report.owner.kind is not NodeOwnerKind.POD:
        return None
    return proved(evidence, Bucket.ATTACHED, Reason.ATTACHED, "the kernel runs the pod's scheduler")


def kernel_cannot_run_any(evidence: Evidence) -> ProvedState | None:
    """By the kernel's own answers: versions prove nothing."""
    report = evidence.report
    if report is None or report.eligible is not Eligibility.NO:
        return None
    failed = [each for each in report.findings if each.id in _DECISIVE and each.status == "fail"]
    why = "; ".join(f"{each.id}: {each.detail}" for each in failed) or "it says so without a reason"
    return proved(evidence, Bucket.INELIGIBLE, Reason.INELIGIBLE, f"the kernel cannot run sched_ext: {why}")


def pod_is_broken(evidence: Evidence) -> ProvedState | None:
    """The cause is the pod itself, before any kernel is asked."""
    return _as_the_pod_says(evidence) if evidence.said.reason in BROKEN else None


def _as_the_pod_says(evidence: Evidence) -> ProvedState:
    said = evidence.said
    return proved(evidence, said.bucket, said.reason, said.message)


def predecessor_still_runs(evidence: Evidence) -> ProvedState | None:
    """A pod of the same DaemonSet that takes its time to end."""
    report, owner = evidence.report, evidence.sight.owner
    if report is None or not is_enabled(report) or owner is None or not _is_sibling(owner, evidence.pod):
        return None
    words = "the kernel still runs the scheduler of the node's former pod"
    return proved(evidence, Bucket.STARTING, Reason.ATTACHING, words)


def _is_sibling(one: Pod, other: Pod) -> bool:
    mine, theirs = one.metadata.controller, other.metadata.controller
    return mine is not None and theirs is not None and mine.uid == theirs.uid


def owner_is_not_seen_yet(evidence: Evidence) -> ProvedState | None:
    """A node may be faster than the API server: the pod can be ours."""
    report = evidence.report
    is_strange = report is not None and is_enabled(report) and report.owner.kind is NodeOwnerKind.POD
    if not is_strange or not evidence.is_younger(evidence.sight.stranger_since, STRANGER_LASTS):
        return None
    words = "the kernel runs the scheduler of a pod that is not known yet"
    return proved(evidence, Bucket.STARTING, Reason.ATTACHING, words)


_OF_OTHERS = frozenset(
    {NodeOwnerKind.POD, NodeOwnerKind.SCHEDCTL, NodeOwnerKind.FOREIGN, NodeOwnerKind.ORPHAN}
)


def kernel_runs_another(evidence: Evidence) -> ProvedState | None:
    """A kernel runs one scheduler: as long as it is somebody else's, ours cannot be attached."""
    report = evidence.report
    if report is None or not is_enabled(report) or report.owner.kind not in _OF_OTHERS:
        return None
    words = f"the kernel runs another scheduler, {_whose(evidence, report)}"
    return proved(evidence, Bucket.CONFLICTED, Reason.CONFLICTED, words)


def _whose(evidence: Evidence, report: ReportStatus) -> str:
    owner = report.owner
    if owner.kind is NodeOwnerKind.POD:
        return _whose_pod(evidence)
    if owner.kind is NodeOwnerKind.SCHEDCTL:
        return f"of the container {owner.container_id[:12]}, which schedctl started on the node"
    if owner.kind is NodeOwnerKind.ORPHAN:
        return "which no process of the node holds"
    named = ((owner.unit, "of the systemd unit"), (owner.program, "of the program"))
    found = (f"{what} {shortened(value)}, started on the node itself" for value, what in named if value)
    return next(found, "which somebody started on the node itself")


def _whose_pod(evidence: Evidence) -> str:
    """What one tenant may know about another: not even a name."""
    owner = evidence.sight.owner
    if owner is None:
        return "of a pod that sked did not make"
    if owner.metadata.namespace != evidence.pod.metadata.namespace:
        return "of a pod of another namespace"
    by = owner.metadata.controller
    return f"of the pod {owner.metadata.name}" + (f" of SchedExt {by.name}" if by else "")


def human_stopped_it(evidence: Evidence) -> ProvedState | None:
    """With SysRq-S: nothing is wrong with the scheduler."""
    ended = _last_end(evidence)
    if ended is None or ended.kind != _SYSRQ:
        return None
    words = f"somebody at the node stopped {ended.ops or 'the scheduler'} with SysRq-S"
    return proved(evidence, Bucket.FAILED, Reason.STOPPED_BY_HUMAN, words)


def kernel_ejected_it(evidence: Evidence) -> ProvedState | None:
    """In the kernel's own words."""
    ended = _last_end(evidence)
    if ended is None or ended.kind < EJECT:
        return None
    return proved(evidence, Bucket.FAILED, Reason.EJECTED, words_of_eject(ended))


def words_of_eject(ended: NodeExit) -> str:
    """What the kernel said when it threw the scheduler out."""
    why = f"{ended.reason or 'no reason is given'} ({ended.kind})"
    said = f": {shortened(ended.message)}" if ended.message else ""
    task = f"; the task is {ended.task}" if ended.task and ended.task not in ended.message else ""
    often = f"; {ended.count} times in a row" if ended.count > 1 else ""
    return f"the kernel ejected {ended.ops or 'the scheduler'}, {why}{said}{task}{often}"


def _last_end(evidence: Evidence) -> NodeExit | None:
    """How the pod's scheduler last ended, if the kernel says that none is attached now; None: it did not.

    Both moments are by the node's own clock. An eject before the pod's start was another pod's.
    """
    report, started = evidence.report, evidence.pod.status.start_time
    if report is None or report.state not in _NOTHING_RUNS or started is None:
        return None
    ends = (each for each in reversed(report.exits) if each.time is not None and each.time >= started)
    return next((each for each in ends if _is_its_own(evidence, each)), None)


def _is_its_own(evidence: Evidence, ended: NodeExit) -> bool:
    """Whether the pod's scheduler ended: what is said to another's end may name what is another's.

    Where nobody saw whose it was, as with agents that do not look for it, it is the pod's if no other pod of
    sked has been on the node.
    """
    if ended.owner:
        return ended.pod_uid == evidence.pod.metadata.uid != ""
    return not evidence.sight.has_neighbour


# When there is no good report, or nothing is attached


def pod_does_not_run(evidence: Evidence) -> ProvedState | None:
    """Where no container runs, no kernel runs its scheduler."""
    return _as_the_pod_says(evidence) if evidence.said.reason in _NOT_RUNNING else None


def node_is_silent(evidence: Evidence) -> ProvedState | None:
    """Kubernetes itself does not hear of it."""
    node = evidence.sight.node
    if evidence.report is not None or (node is not None and node.is_ready):
        return None
    words = "the node is not Ready, or gone: it is not known what its kernel runs"
    return proved(evidence, Bucket.UNKNOWN, Reason.NODE_SILENT, words)


def node_has_just_joined(evidence: Evidence) -> ProvedState | None:
    """Its agent is on its way."""
    if evidence.report is not None or not evidence.is_younger(evidence.sight.joined_at, JOINING_LASTS):
        return None
    words = "the node joined less than five minutes ago, and has not reported yet"
    return proved(evidence, Bucket.STARTING, Reason.NODE_JOINING, words)


def nobody_says(evidence: Evidence) -> ProvedState | None:
    """Each cause has its own reason."""
    why = distrust(evidence.sight, evidence.now)
    return proved(evidence, Bucket.UNKNOWN, *why) if why else None


def kernel_cannot_be_read(evidence: Evidence) -> ProvedState | None:
    """An agent that may not look, or does not understand the answer, knows nothing."""
    report = evidence.report
    if report is None or report.state in _STATES:
        return None
    why = next((each.detail for each in report.findings if each.id == _DECISIVE[0]), "")
    said = f": {shortened(why)}" if why else ""
    words = f"the node's agent cannot read what its kernel runs{said}"
    return proved(evidence, Bucket.UNKNOWN, Reason.KERNEL_UNREADABLE, words)


def owner_is_not_proved(evidence: Evidence) -> ProvedState | None:
    """Something is attached: to call it ours would be a guess."""
    report = evidence.report
    if report is None or not is_enabled(report) or report.owner.kind is not NodeOwnerKind.UNKNOWN:
        return None
    why = shortened(report.owner.reason) or "no reason is given"
    words = f"the node's agent cannot prove whose scheduler the kernel runs: {why}"
    return proved(evidence, Bucket.UNKNOWN, Reason.OWNER_UNPROVED, words)


def kernel_restarts_it(evidence: Evidence) -> ProvedState | None:
    """A CPU came or went: the scheduler ends in good order, and comes back by itself."""
    ended = _last_end(evidence)
    is_young = evidence.is_younger(evidence.sight.unattached_since or evidence.now, ATTACHING_LASTS)
    if ended is None or ended.kind != _RESTARTED_BY_KERNEL or not is_young:
        return None
    words = "a CPU came or went, and the scheduler is about to be attached again"
    return proved(evidence, Bucket.STARTING, Reason.REATTACHING, words)


def it_is_being_attached(evidence: Evidence) -> ProvedState | None:
    """Verifying its programs takes the kernel a while."""
    if not evidence.is_younger(evidence.sight.unattached_since or evidence.now, ATTACHING_LASTS):
        return None
    words = "the pod runs, and its scheduler is about to be attached"
    return proved(evidence, Bucket.STARTING, Reason.ATTACHING, words)


def it_is_not_attached(evidence: Evidence) -> ProvedState:
    """When no check found anything."""
    words = "the pod has run for five minutes, and the kernel does not run its scheduler: see the pod's log"
    return proved(evidence, Bucket.FAILED, Reason.NOT_ATTACHED, words)
