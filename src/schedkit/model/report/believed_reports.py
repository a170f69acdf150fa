"""Which report of a node is believed, for how long, and all else that is known of the node.

A pod that runs proves nothing. What counts is a *good report*: of this boot of this very node, by an agent
that is ready, or was less than two minutes ago.

A manager that has just begun cannot know the latter. Where the status says already that agents are silent,
silent ones get no more time; where it does not, they get the two minutes. So a manager that is upgraded
together with its agents changes no condition, and none brings an old report back.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from schedkit.model.api.conditions import Reason
from schedkit.model.api.pods import Pod
from schedkit.model.api.reports import ReportStatus
from schedkit.model.report.pod_checks import NodeState, shortened
from schedkit.model.report.sights import Sight

REPORT_LASTS = timedelta(minutes=2)  # after its agent stopped being ready
ATTACHING_LASTS = timedelta(minutes=5)
JOINING_LASTS = timedelta(minutes=5)
REBOOTING_LASTS = timedelta(minutes=5)
STRANGER_LASTS = timedelta(seconds=30)  # so long a pod may be in a report before it is in the cache


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


def evidence_of(pod: Pod, said: NodeState, sight: Sight, now: datetime) -> Evidence:
    """All that is known of the pod's node; its report only if it is good."""
    good = sight.report if distrust(sight, now) is None else None
    return Evidence(pod, said, sight, now, good)


# Whether a report is good


def distrust(sight: Sight, now: datetime) -> tuple[Reason, str] | None:
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


def changes_at(evidence: Evidence) -> datetime | None:
    """When something of it ends to count; None: not by waiting alone."""
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
