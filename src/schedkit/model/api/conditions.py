"""Conditions: questions about a SchedExt that are always answered, and the reasons of the answers.

Every reason that can appear is a member of `Reason`, with its meaning beside it. Users write alerts on them:
a name here is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec

from schedkit.model.api.schedext import Condition, ConditionStatus, ConditionType

MAX_MESSAGE = 1024
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


class Reason(StrEnum):
    """Why a condition is what it is."""

    # Accepted
    ACCEPTED = "Accepted"  # nothing prevents the deployment
    OVERLAPPING = "Overlapping"  # accepted, but another SchedExt may want the same nodes

    # Accepted, Deployed and Ready
    NEWER_MANAGER_NEEDED = "NewerManagerNeeded"  # a newer sked wrote what this one does not know: left alone
    NAME_TAKEN = "NameTaken"  # a DaemonSet of that name has another owner, or no owner
    OLD_DAEMON_SET = "OldDaemonSet"  # the DaemonSet of a deleted SchedExt of that name is not gone yet
    DAEMON_SET_REFUSED = "DaemonSetRefused"  # the API server, or a webhook it asks, refused the DaemonSet

    # Accepted, Verified, Deployed and Ready
    NOT_ALLOWED = "NotAllowed"  # the administrator's rules exclude the image or the namespace
    POLICY_UNREADABLE = "PolicyUnreadable"  # the administrator's rules cannot be read: nothing new may run
    UNTRUSTED = "Untrusted"  # the image is not signed by a trusted signer
    REGISTRY_UNREACHABLE = "RegistryUnreachable"  # the registry does not say who signed the image
    VERIFIER_FAILED = "VerifierFailed"  # verification failed midway; it is tried again
    VERIFYING = "Verifying"  # signatures are being verified

    # Verified
    VERIFIED = "Verified"  # a trusted signer signed the image
    TAG_MOVED = "TagMoved"  # the running image is verified, but its tag now names another image
    NOT_PINNED = "NotPinned"  # pods run, or may run, an image other than the verified image
    VERIFICATION_OFF = "VerificationOff"  # signatures are not verified

    # Deployed and Ready: what is wrong on the worst node, from here on the worst first
    PODS_REFUSED = "PodsRefused"  # pods cannot be created: Pod Security or another policy refuses them
    PRIVILEGES_REMOVED = "PrivilegesRemoved"  # a mutating policy removed the container's privileges
    IMAGE_PULL_FAILED = "ImagePullFailed"  # a node cannot pull the image
    CONTAINER_REFUSED = "ContainerRefused"  # a node cannot make the container
    CRASHING = "Crashing"  # the scheduler's process ends again and again
    POD_FAILED = "PodFailed"  # a node evicted or rejected the pod
    POD_PENDING = "PodPending"  # a pod fits on no node
    NODE_SILENT = "NodeSilent"  # a pod is not ready any more: its node does not answer
    NO_NODES = "NoNodes"  # no node matches
    POD_STARTING = "PodStarting"  # a pod is being started

    # Ready: what the kernel of the worst node says, from here on the worst first
    EJECTED = "Ejected"  # the kernel of a node threw the scheduler out, with the words that it gives
    CONFLICTED = "Conflicted"  # the kernel of a node runs a scheduler of somebody else
    STOPPED_BY_HUMAN = "StoppedByHuman"  # somebody at a node stopped the scheduler with SysRq-S
    NOT_ATTACHED = "NotAttached"  # a pod has run for five minutes, and the kernel does not run its scheduler
    REPORT_UNREADABLE = "ReportUnreadable"  # a node's report is not understood: its agent may be newer
    KERNEL_UNREADABLE = "KernelUnreadable"  # an agent may not read what the kernel of its node runs
    OWNER_UNPROVED = "OwnerUnproved"  # an agent cannot prove whose scheduler the kernel of its node runs
    AGENT_REFUSED = "AgentRefused"  # agents cannot be created: Pod Security or another policy refuses them
    AGENT_MISSING = "AgentMissing"  # there has been no agent on a node for two minutes
    AGENT_SILENT = "AgentSilent"  # the agent on a node has not been ready for two minutes
    REPORT_MISSING = "ReportMissing"  # no agent has reported from a node yet
    OTHER_NODE = "OtherNode"  # the report is by the agent of a Node that was deleted and made anew
    OTHER_BOOT = "OtherBoot"  # the report of a node is about an earlier boot
    REATTACHING = "Reattaching"  # the kernel restarts the scheduler, because a CPU came or went
    ATTACHING = "Attaching"  # a pod runs, and its scheduler is about to be attached
    NODE_JOINING = "NodeJoining"  # a node joined less than five minutes ago, and has not reported yet
    INELIGIBLE = "Ineligible"  # the kernel of a node cannot run sched_ext, by its own report
    ATTACHED = "Attached"  # the kernel of every node that can answer is proved to run the scheduler
    NO_KERNEL_REPORTS = "NoKernelReports"  # no node says what its kernel runs

    # Deployed
    SETTLING = "Settling"  # a pod runs, but not for long enough
    PODS_SETTLED = "PodsSettled"  # every pod has run for a while without a restart

    # Deployed, Progressing and Ready
    ROLLING_OUT = "RollingOut"  # the last change has not reached every node yet

    # Progressing
    STARTING = "Starting"  # pods are being started
    UP_TO_DATE = "UpToDate"  # every pod is made from the current spec
    LEGACY_TEMPLATE = "LegacyTemplate"  # the Go sked made the pods; they stay until the spec changes
    BLOCKED = "Blocked"  # nothing can be done until another condition changes

    # Deployed, Progressing and Ready
    SUSPENDED = "Suspended"  # the user wants nothing to run
    STOPPED = "Stopped"  # somebody stopped it, by the annotation `sked.schedkit.io/stop`: nothing runs


# what somebody should look at
WARNINGS = frozenset(
    {
        Reason.OVERLAPPING,
        Reason.NEWER_MANAGER_NEEDED,
        Reason.NAME_TAKEN,
        Reason.DAEMON_SET_REFUSED,
        Reason.NOT_ALLOWED,
        Reason.POLICY_UNREADABLE,
        Reason.UNTRUSTED,
        Reason.VERIFIER_FAILED,
        Reason.TAG_MOVED,
        Reason.NOT_PINNED,
        Reason.PODS_REFUSED,
        Reason.PRIVILEGES_REMOVED,
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_REFUSED,
        Reason.CRASHING,
        Reason.POD_FAILED,
        Reason.NODE_SILENT,
        Reason.EJECTED,
        Reason.CONFLICTED,
        Reason.NOT_ATTACHED,
        Reason.REPORT_UNREADABLE,
        Reason.KERNEL_UNREADABLE,
        Reason.OWNER_UNPROVED,
        Reason.AGENT_REFUSED,
        Reason.AGENT_MISSING,
        Reason.AGENT_SILENT,
        Reason.BLOCKED,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer to a condition's question."""

    status: ConditionStatus
    reason: Reason
    message: str


def yes(reason: Reason, message: str) -> Finding:
    """The answer is True."""
    return Finding(ConditionStatus.TRUE, reason, message)


def no(reason: Reason, message: str) -> Finding:
    """The answer is False."""
    return Finding(ConditionStatus.FALSE, reason, message)


def unknown(reason: Reason, message: str) -> Finding:
    """The answer is Unknown."""
    return Finding(ConditionStatus.UNKNOWN, reason, message)


def condition(kind: ConditionType, finding: Finding, generation: int) -> Condition:
    """The finding as the API writes it, without a date."""
    return Condition(
        type=kind.value,
        status=finding.status,
        observed_generation=generation,
        reason=finding.reason.value,
        message=legible(finding.message)[:MAX_MESSAGE],
    )


def legible(words: str) -> str:
    """The text on one line, without characters that a terminal would obey or show in another order."""
    one_line = " ".join(words.split())
    return "".join(each if each.isprintable() else _UNPRINTABLE for each in one_line)


def carry_dates(
    previous: Iterable[Condition], computed: Iterable[Condition], now: datetime
) -> tuple[Condition, ...]:
    """Keep the date of each unchanged answer; a changed answer gets the current time, in whole seconds."""
    before = {each.type: each for each in previous}
    moment = now.replace(microsecond=0)
    return tuple(
        msgspec.structs.replace(each, last_transition_time=_since(before.get(each.type), each) or moment)
        for each in computed
    )


def _since(before: Condition | None, after: Condition) -> datetime | None:
    """When the answer last changed; None: just now."""
    return before.last_transition_time if before and before.status == after.status else None
