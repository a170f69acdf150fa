"""What the kernel of each node is proved to run: a table of checks, of which the first that speaks decides.

A pod that runs proves nothing. What counts is a *good report*: of this boot of this very node, by an agent
that is ready, or was less than two minutes ago.

A manager that has just begun cannot know the latter. Where the status says already that agents are silent,
silent ones get no more time; where it does not, they get the two minutes. So a manager that is upgraded
together with its agents changes no condition, and none brings an old report back.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from schedkit.model.api.conditions import Reason
from schedkit.model.api.pods import Pod
from schedkit.model.api.reports import ReportStatus
from schedkit.model.api.schedextnode import Eligibility, NodeExit, NodeOwnerKind
from schedkit.model.report.node_checks import Bucket, NodeState, shortened
from schedkit.model.report.sights import EJECT, Sight, is_attached, is_enabled

REPORT_LASTS = timedelta(minutes=2)  # after its agent stopped being ready
ATTACHING_LASTS = timedelta(minutes=5)
JOINING_LASTS = timedelta(minutes=5)
REBOOTING_LASTS = timedelta(minutes=5)
STRANGER_LASTS = timedelta(seconds=30)  # so long a pod may be in a report before it is in the cache

_SYSRQ, _RESTARTED_BY_KERNEL = 67, 66  # the kernel's numbers for ends
_STATES = frozenset({"enabled", "enabling", "disabled", "disabling", "absent"})  # the kernel's own words
_NOTHING_RUNS = frozenset({"disabled", "disabling"})
_DECISIVE = ("kernel.sched_ext", "kernel.btf")
# no kernel could run the scheduler of such a pod
_BROKEN = frozenset(
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


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """One node: its pod, what the pod says, and what is seen beside it."""

    pod: Pod
    said: NodeState
    sight: Sight
    now: datetime
    report: ReportStatus | None  # None: there is no good one

    def is_younger(self, moment: datetime | None, lasts: timedelta) -> bool:
        """Whether that began, and did not begin too long ago."""
        return moment is not None and self.now < moment + lasts


Check = Callable[[Evidence], ProvedState | None]


def proved_state(pod: Pod, said: NodeState, sight: Sight, now: datetime) -> ProvedState:
    """The state of the kernel of the pod's node."""
    good = sight.report if _distrust(sight, now) is None else None
    evidence = Evidence(pod, said, sight, now, good)
    for row in TABLE:
        finding = row.check(evidence)
        if finding is not None:
            return finding
    raise AssertionError("the last check finds something on every node")


def without_a_pod(said: NodeState) -> ProvedState:
    """The state of a node on which no pod could speak."""
    return ProvedState(said.node, said.bucket, said.reason, said.message)


# Whether a report is good


def _distrust(sight: Sight, now: datetime) -> tuple[Reason, str] | None:
    """Why the report says nothing about now; None: it is good."""
    if sight.misfit:
        return Reason.REPORT_UNREADABLE, f"the node's report is not understood: {shortened(sight.misfit)}"
    if sight.rebooted_at is not None and now < sight.rebooted_at + REBOOTING_LASTS:
        return _misfiled(sight)  # its agent is on its way
    is_over = sight.silent_since is not None and now >= sight.silent_since + REPORT_LASTS
    is_silent = is_over or sight.is_told_silent
    if is_silent and not sight.has_agent:
        return Reason.AGENT_MISSING, "there is no agent on the node: it is not known what the kernel runs"
    if is_silent:
        words = "the node's agent has not been ready for two minutes: it is not known what the kernel runs"
        return Reason.AGENT_SILENT, words
    return _misfiled(sight)


def silence_reason(*, has_agent: bool) -> Reason:
    """What a node is told of from which no agent speaks."""
    return Reason.AGENT_SILENT if has_agent else Reason.AGENT_MISSING


def _misfiled(sight: Sight) -> tuple[Reason, str] | None:
    """Why the report is not about this boot of this very Node; None: it is."""
    if sight.report is None:
        return Reason.REPORT_MISSING, "no agent has reported from the node yet"
    if _is_of_another_node(sight, sight.report):
        words = "the node's report is by the agent of an earlier Node of that name"
        way_out = "delete the agent's pod on the node, or wait up to an hour for its new token"
        return Reason.OTHER_NODE, f"{words}: {way_out}"
    if not _is_of_this_boot(sight, sight.report):
        return Reason.OTHER_BOOT, "the node's report is not about its present boot"
    return None


def _is_of_another_node(sight: Sight, report: ReportStatus) -> bool:
    """A token is for one Node: the agent of a Node that was deleted and made anew needs another one."""
    node = sight.node
    return node is not None and bool(node.metadata.uid) and node.metadata.uid != report.node_uid


def _is_of_this_boot(sight: Sight, report: ReportStatus) -> bool:
    """A Node that does not say its boot is compared with nothing: that proves nothing."""
    node = sight.node
    if node is None or not node.metadata.uid or not node.status.node_info.boot_id:
        return False
    known = (node.metadata.uid, node.status.node_info.boot_id)
    return known == (report.node_uid, report.kernel.boot_id)


# What a good report says


def kernel_runs_it(evidence: Evidence) -> ProvedState | None:
    """The proof, whatever the pod says, and whatever template it is made from."""
    report = evidence.report
    if report is None or not is_attached(report, evidence.pod) or report.owner.kind is not NodeOwnerKind.POD:
        return None
    return _state(evidence, Bucket.ATTACHED, Reason.ATTACHED, "the kernel runs the pod's scheduler")


def kernel_cannot_run_any(evidence: Evidence) -> ProvedState | None:
    """By the kernel's own answers: versions prove nothing."""
    report = evidence.report
    if report is None or report.eligible is not Eligibility.NO:
        return None
    failed = [each for each in report.findings if each.id in _DECISIVE and each.status == "fail"]
    why = "; ".join(f"{each.id}: {each.detail}" for each in failed) or "it says so without a reason"
    return _state(evidence, Bucket.INELIGIBLE, Reason.INELIGIBLE, f"the kernel cannot run sched_ext: {why}")


def pod_is_broken(evidence: Evidence) -> ProvedState | None:
    """The cause is the pod itself, before any kernel is asked."""
    return _as_the_pod_says(evidence) if evidence.said.reason in _BROKEN else None


def predecessor_still_runs(evidence: Evidence) -> ProvedState | None:
    """A pod of the same DaemonSet that takes its time to end."""
    report, owner = evidence.report, evidence.sight.owner
    if report is None or not is_enabled(report) or owner is None or not _is_sibling(owner, evidence.pod):
        return None
    words = "the kernel still runs the scheduler of the node's former pod"
    return _state(evidence, Bucket.STARTING, Reason.ATTACHING, words)


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
    return _state(evidence, Bucket.STARTING, Reason.ATTACHING, words)


_OF_OTHERS = frozenset(
    {NodeOwnerKind.POD, NodeOwnerKind.SCHEDCTL, NodeOwnerKind.FOREIGN, NodeOwnerKind.ORPHAN}
)


def kernel_runs_another(evidence: Evidence) -> ProvedState | None:
    """A kernel runs one scheduler: as long as it is somebody else's, ours cannot be attached."""
    report = evidence.report
    if report is None or not is_enabled(report) or report.owner.kind not in _OF_OTHERS:
        return None
    words = f"the kernel runs another scheduler, {_whose(evidence, report)}"
    return _state(evidence, Bucket.CONFLICTED, Reason.CONFLICTED, words)


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
    return _state(evidence, Bucket.FAILED, Reason.STOPPED_BY_HUMAN, words)


def kernel_ejected_it(evidence: Evidence) -> ProvedState | None:
    """In the kernel's own words."""
    ended = _last_end(evidence)
    if ended is None or ended.kind < EJECT:
        return None
    return _state(evidence, Bucket.FAILED, Reason.EJECTED, words_of_eject(ended))


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
    return _state(evidence, Bucket.UNKNOWN, Reason.NODE_SILENT, words)


def node_has_just_joined(evidence: Evidence) -> ProvedState | None:
    """Its agent is on its way."""
    if evidence.report is not None or not evidence.is_younger(evidence.sight.joined_at, JOINING_LASTS):
        return None
    words = "the node joined less than five minutes ago, and has not reported yet"
    return _state(evidence, Bucket.STARTING, Reason.NODE_JOINING, words)


def nobody_says(evidence: Evidence) -> ProvedState | None:
    """Each cause has its own reason."""
    distrust = _distrust(evidence.sight, evidence.now)
    return _state(evidence, Bucket.UNKNOWN, *distrust) if distrust else None


def kernel_cannot_be_read(evidence: Evidence) -> ProvedState | None:
    """An agent that may not look, or does not understand the answer, knows nothing."""
    report = evidence.report
    if report is None or report.state in _STATES:
        return None
    why = next((each.detail for each in report.findings if each.id == _DECISIVE[0]), "")
    said = f": {shortened(why)}" if why else ""
    words = f"the node's agent cannot read what its kernel runs{said}"
    return _state(evidence, Bucket.UNKNOWN, Reason.KERNEL_UNREADABLE, words)


def owner_is_not_proved(evidence: Evidence) -> ProvedState | None:
    """Something is attached: to call it ours would be a guess."""
    report = evidence.report
    if report is None or not is_enabled(report) or report.owner.kind is not NodeOwnerKind.UNKNOWN:
        return None
    why = shortened(report.owner.reason) or "no reason is given"
    words = f"the node's agent cannot prove whose scheduler the kernel runs: {why}"
    return _state(evidence, Bucket.UNKNOWN, Reason.OWNER_UNPROVED, words)


def kernel_restarts_it(evidence: Evidence) -> ProvedState | None:
    """A CPU came or went: the scheduler ends in good order, and comes back by itself."""
    ended = _last_end(evidence)
    is_young = evidence.is_younger(evidence.sight.unattached_since or evidence.now, ATTACHING_LASTS)
    if ended is None or ended.kind != _RESTARTED_BY_KERNEL or not is_young:
        return None
    words = "a CPU came or went, and the scheduler is about to be attached again"
    return _state(evidence, Bucket.STARTING, Reason.REATTACHING, words)


def it_is_being_attached(evidence: Evidence) -> ProvedState | None:
    """Verifying its programs takes the kernel a while."""
    if not evidence.is_younger(evidence.sight.unattached_since or evidence.now, ATTACHING_LASTS):
        return None
    words = "the pod runs, and its scheduler is about to be attached"
    return _state(evidence, Bucket.STARTING, Reason.ATTACHING, words)


def it_is_not_attached(evidence: Evidence) -> ProvedState:
    """When no check found anything."""
    words = "the pod has run for five minutes, and the kernel does not run its scheduler: see the pod's log"
    return _state(evidence, Bucket.FAILED, Reason.NOT_ATTACHED, words)


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
        dict.fromkeys(sorted(_BROKEN), Bucket.FAILED) | {Reason.POD_PENDING: Bucket.STARTING},
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


def _as_the_pod_says(evidence: Evidence) -> ProvedState:
    said = evidence.said
    return _state(evidence, said.bucket, said.reason, said.message)


def _state(evidence: Evidence, bucket: Bucket, reason: Reason, message: str) -> ProvedState:
    is_excused = bucket is Bucket.INELIGIBLE or _is_excused(evidence)
    node = evidence.pod.spec.node_name
    return ProvedState(node, bucket, reason, message, is_excused, changes_at=_changes_at(evidence))


def _is_excused(evidence: Evidence) -> bool:
    """Of a big fleet one node is always down, and one is new: those do not keep Ready from being True."""
    if not evidence.pod.spec.node_name:
        return False
    node, sight = evidence.sight.node, evidence.sight
    is_leaving = node is None or not node.is_ready or node.metadata.deletion_timestamp is not None
    return is_leaving or evidence.is_younger(sight.joined_at, JOINING_LASTS)


def _changes_at(evidence: Evidence) -> datetime | None:
    sight = evidence.sight
    waits = (
        (sight.silent_since, REPORT_LASTS),
        (sight.unattached_since, ATTACHING_LASTS),
        (sight.stranger_since, STRANGER_LASTS),
        (sight.joined_at, JOINING_LASTS),
        (sight.rebooted_at, REBOOTING_LASTS),
    )
    ends = (since + lasts for since, lasts in waits if since is not None)
    return min((end for end in ends if end > evidence.now), default=None)
