"""Nodes, each with what decides about its owner: labels, taints, pods of schedulers, report, records.

Moments are by the manager's own clock, when it first saw something.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from schedkit.model.api.nodes import Taint
from schedkit.model.api.pod_fields import CLAIM_KEY
from schedkit.model.api.reports import ReportStatus
from schedkit.model.api.schedextnode import Eligibility, NodeOwnerKind
from schedkit.model.claims.holds import Hold

NOTE_KEY = CLAIM_KEY  # an annotation beside the label of that name
NOBODY = "none"  # the claim of a node that nobody may use
STRANGER_LASTS = timedelta(seconds=30)  # so long a pod may be in a report before it is in the cache
UNREADY_LASTS = timedelta(minutes=5)
_NOTHING_RUNS = frozenset({"disabled", "absent"})
_STRANGERS = frozenset({NodeOwnerKind.SCHEDCTL, NodeOwnerKind.FOREIGN, NodeOwnerKind.ORPHAN})
_NO_HOLDER = frozenset({NodeOwnerKind.NONE, NodeOwnerKind.UNKNOWN})


class Cause(StrEnum):
    """Why a node is whose it is."""

    OWNED = "Owned"
    UNWANTED = "Unwanted"  # nobody wants it, or nobody may have it
    STOPPED = "Stopped"  # a human's hold
    FOREIGN = "Foreign"  # a scheduler that is not ours
    QUARANTINED = "Quarantined"  # all who want it are in quarantine there
    INELIGIBLE = "Ineligible"  # its kernel can run none
    OUTSIDE = "Outside"  # an open template selects it, whose namespace may not have it
    SHARED_KERNEL = "SharedKernel"  # another node of the same kernel has the owner


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation beside a claim: who in full, and why."""

    owner: str = ""  # namespace and name of the SchedExt that has it, or had it before nobody might
    cause: Cause | None = None
    reason: str = ""


def read_note(written: str | None) -> Note:
    """What our annotation says; what is not ours says nothing."""
    try:
        return msgspec.json.decode(written or "{}", type=Note)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Note()


class SitePod(msgspec.Struct, frozen=True):
    """A pod of a scheduler; one that is terminal and being deleted is gone, and not listed."""

    claim: str  # of the candidate that its DaemonSet is of, also if that is not there any more
    uid: str
    is_ending: bool = False  # somebody deleted it
    started: datetime | None = None  # by the node's clock


class Site(msgspec.Struct, frozen=True):
    """A node, as it is seen at one moment."""

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    label: str | None = None  # its claim; None: it has none
    holds: tuple[Hold, ...] = ()
    note: Note = Note()  # what our annotation says about the label; empty: we wrote none
    pods: tuple[SitePod, ...] = ()
    report: ReportStatus | None = None  # None: there is no good one
    is_ready: bool = True
    unready_since: datetime | None = None
    free_since: datetime | None = None  # since when good reports know of no foreign scheduler
    stranger_since: datetime | None = None  # since when the report names a pod that is not known

    def has_pod_of(self, claim: str) -> bool:
        """Whether a pod of it is there, and nobody deletes that."""
        return any(each.claim == claim and not each.is_ending for each in self.pods)

    def has_pod_of_another(self, claim: str) -> bool:
        """Whether a pod of somebody else is there, also one that takes its time to end."""
        return any(each.claim != claim for each in self.pods)

    @property
    def attached(self) -> str:
        """The claim of whose pod the kernel is proved to run the scheduler; empty: of none that is known."""
        report = self.report
        if report is None or report.state != "enabled" or report.owner.kind is not NodeOwnerKind.POD:
            return ""
        return next((each.claim for each in self.pods if each.uid == report.owner.pod_uid), "")

    @property
    def is_ineligible(self) -> bool:
        """Whether the kernel said that it can run none, and has not said otherwise since."""
        if self.report is None or self.report.eligible is Eligibility.UNKNOWN:
            return self.note.cause is Cause.INELIGIBLE
        return self.report.eligible is Eligibility.NO

    def is_still_attached(self, claim: str) -> bool:
        """Whether the kernel runs, or a process holds, something that is not that claimant's own."""
        report = self.report
        if report is None or (report.state in _NOTHING_RUNS and report.owner.kind in _NO_HOLDER):
            return False
        return self.attached != claim

    def has_foreign(self, now: datetime) -> bool:
        """Whether the kernel runs a scheduler that sked did not start."""
        report = self.report
        if report is None or report.state != "enabled":
            return False
        if report.owner.kind is NodeOwnerKind.POD and not self.attached:
            return self.stranger_since is not None and now >= self.stranger_since + STRANGER_LASTS
        return report.owner.kind in _STRANGERS

    def counts(self, now: datetime) -> bool:
        """Whether it counts against a budget: a node that is away for long does not."""
        since = self.unready_since
        return self.is_ready or since is None or now < since + UNREADY_LASTS
