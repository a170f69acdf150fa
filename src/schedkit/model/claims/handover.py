"""What stands between an old owner and a new one: two steps, so that no two schedulers fight for a kernel.

First the label `none`, which ends the old one's pod; then, when it is gone, the new one's claim. The phase is
read from label, pods and report each time.
"""

from __future__ import annotations

import math
from enum import StrEnum

from schedkit.model.claims.candidates import Candidate
from schedkit.model.claims.placement import would_start
from schedkit.model.claims.sites import NOBODY, Site


class Phase(StrEnum):
    """How far a node is on its way to its owner."""

    SETTLED = "settled"  # nothing is to be written
    GRANTED = "granted"  # its label is written now
    BEGUN = "begun"  # it is taken from its old owner now
    QUEUED = "queued"  # it will be: others go first, as many as the winner may miss at a time
    ENDING = "ending"  # the old owner's pod has not ended
    STILL_ATTACHED = "still attached"  # the pod has ended, and the kernel still runs its scheduler
    NOT_READY = "not ready"  # Kubernetes does not call the node Ready
    KEPT_OUT = "kept out"  # a taint would keep the winner's pod away
    NOT_ALLOWED = "not allowed"  # rules or signatures would


# its old owner keeps it for now
POSTPONED = frozenset({Phase.QUEUED, Phase.NOT_READY, Phase.KEPT_OUT, Phase.NOT_ALLOWED})
ARRIVED = frozenset({Phase.SETTLED, Phase.GRANTED})  # its label is there, or is written now


def phase_of(site: Site, owner: Candidate, target: str | None) -> Phase:
    """How far the site is on its way to that owner, whose label there is the target."""
    if site.label == target or owner.stop is not None:  # nothing is written for who is stopped
        return Phase.SETTLED
    if _runs_there(site, owner) or not _is_in_use(site, owner):
        is_away = site.label == NOBODY and not site.is_ready
        return Phase.NOT_READY if is_away else Phase.GRANTED
    if site.label == NOBODY:
        return Phase.ENDING if site.has_pod_of_another(owner.claim) else Phase.STILL_ATTACHED
    if not site.is_ready:
        return Phase.NOT_READY
    if not owner.may_run:  # a pool may be barred whose SchedExt runs there
        return Phase.NOT_ALLOWED
    return Phase.BEGUN if would_start(owner, site.taints) else Phase.KEPT_OUT


def _runs_there(site: Site, owner: Candidate) -> bool:
    """Whether its own pod is the one that matters: then others are evicted around it."""
    is_admitted = site.label is None or site.label == owner.claim
    if not is_admitted or not site.has_pod_of(owner.claim):
        return False
    return not site.is_still_attached(owner.claim)


def _is_in_use(site: Site, owner: Candidate) -> bool:
    """Whether the old owner has not gone: by its pod, and where the kernel is heard of, by that too."""
    return site.has_pod_of_another(owner.claim) or site.is_still_attached(owner.claim)


def budget_of(candidate: Candidate, nodes: int) -> int:
    """How many nodes may be on their way to it at once, of so many; at least one."""
    said = candidate.max_unavailable
    if isinstance(said, int):
        return max(said, 1)
    share = said.removesuffix("%")
    return max(math.ceil(int(share) * nodes / 100), 1) if share.isdecimal() else 1
