"""Who goes before whom: priority under its ceiling, then who runs there now, then age, then name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TypeAlias

from schedkit.model.claims.candidates import Candidate, Limits, Template
from schedkit.model.claims.sites import NOBODY, Site

_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)
# the smaller goes first
Rank: TypeAlias = tuple[bool, int, dt.datetime, str, str]


def rank_of(candidate: Candidate, limits: Limits) -> Rank:
    """Everything that counts on every node alike; who runs there now stands between priority and age.

    A template that reads no label cannot be kept off a node: to grant it to another would be a fight.
    """
    is_deaf = candidate.template is Template.DEAF
    created = candidate.created or _LONG_AGO
    return not is_deaf, -limits.priority_of(candidate), created, candidate.namespace, candidate.name


def incumbent_of(site: Site, resources: Mapping[str, str], holder_of_free: str) -> str:
    """The SchedExt that runs there now; empty: none does. `resources` are those of all claims.

    By the kernel, where it is proved; else by the pod; else by the label. A node without a label is the open
    claimant's, also while its pod is being replaced; a node that was taken from everybody is still whose it
    was, by the note beside the label.
    """
    present = {each.claim for each in site.pods if not each.is_ending}
    running = site.attached or (next(iter(present)) if len(present) == 1 else "")
    if running:
        return resources.get(running, "")
    if site.label is None:
        return holder_of_free
    return site.note.owner if site.label == NOBODY else resources.get(site.label, "")
