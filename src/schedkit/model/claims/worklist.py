"""What is to be written, in the order in which it is to be written.

Stops come first, then holds, then what the dead left behind, then hand-overs, then templates: an open
template is made only behind the labels that keep it off the nodes of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TypeAlias

import msgspec

from schedkit.model.claims.candidates import Candidate, StopNote, Template
from schedkit.model.claims.claim import Claim
from schedkit.model.claims.decision import Decision
from schedkit.model.claims.handover import Phase
from schedkit.model.claims.holds import Hold
from schedkit.model.claims.sites import NOBODY, Cause, Note
from schedkit.model.claims.templates import Intent
from schedkit.model.claims.words import reason_of_claim, reason_of_template, reason_of_wait


class StopSchedExt(msgspec.Struct, frozen=True):
    """Stop a whole SchedExt, by its annotation."""

    resource: str
    stop: StopNote
    reason: str


class ResumeSchedExt(msgspec.Struct, frozen=True):
    """Take back a stop of ours: what was stopped is not there any more."""

    resource: str
    reason: str


class WriteNode(msgspec.Struct, frozen=True):
    """Write label and annotations of this very Node, if its label is still the one that was seen."""

    name: str
    uid: str
    was: str | None
    label: str | None  # None: it is removed, and the note with it
    holds: tuple[Hold, ...]
    note: Note


class MakeDaemonSet(msgspec.Struct, frozen=True):
    """Make the DaemonSet of a candidate, open or closed."""

    claim: str
    template: Template
    reason: str


class CloseTemplate(msgspec.Struct, frozen=True):
    """Close the template of a candidate's DaemonSet, together with what its user changed."""

    claim: str
    reason: str


class DeleteDaemonSet(msgspec.Struct, frozen=True):
    """Delete the DaemonSet of a candidate."""

    claim: str
    reason: str


Work: TypeAlias = StopSchedExt | ResumeSchedExt | WriteNode | MakeDaemonSet | CloseTemplate | DeleteDaemonSet
_HELD = frozenset(
    {Cause.STOPPED, Cause.FOREIGN, Cause.QUARANTINED, Cause.INELIGIBLE, Cause.OUTSIDE, Cause.SHARED_KERNEL}
)


class _Turn(IntEnum):
    """Whose turn a Node write is."""

    HOLD = 1
    RELEASE = 2
    GRANT = 3  # before the next begins: it ends a hand-over
    BEGIN = 4


def worklist(decision: Decision) -> tuple[Work, ...]:
    """Everything that is to be written now, in its order; empty: all is as it should be."""
    written = [each for each in decision.claims if each.is_written]
    ordered = sorted(written, key=lambda each: (_turn(each), each.site.name))
    return (
        *_stops(decision),
        *(_node_write(each, decision) for each in ordered),
        *_templates(decision),
    )


# Stops


def _stops(decision: Decision) -> Iterator[Work]:
    for resource in sorted(decision.storms):
        stop = StopNote(_revision_of(decision, resource))
        yield StopSchedExt(resource, stop, "EjectStorm: kernels threw it out on too many nodes")
    for resource in sorted(set(_outlived(decision))):
        yield ResumeSchedExt(resource, "its spec changed since the eject storm")
    for each in decision.sights.candidates:
        if decision.intents[each.claim] is Intent.ENDS:
            yield DeleteDaemonSet(each.claim, reason_of_template(Intent.ENDS, each))


def _revision_of(decision: Decision, resource: str) -> str:
    """Of all its pools together: a change of any of them is a change of the spec."""
    parts = (each for each in decision.sights.candidates if each.resource == resource and each.wants_nodes)
    return ",".join(each.revision for each in sorted(parts, key=lambda one: (one.place, one.claim)))


def _outlived(decision: Decision) -> Iterator[str]:
    for each in decision.sights.candidates:
        stopped = each.stop.revision if each.stop else ""
        if stopped and stopped != _revision_of(decision, each.resource):
            yield each.resource


# Nodes


def _turn(claim: Claim) -> _Turn:
    if claim.cause in _HELD or claim.is_urgent:
        return _Turn.HOLD
    if claim.label is None or claim.label == claim.site.label:
        return _Turn.RELEASE if not claim.owner or claim.site.label != NOBODY else _Turn.GRANT
    return _Turn.BEGIN if claim.phase is Phase.BEGUN else _Turn.GRANT


def _node_write(claim: Claim, decision: Decision) -> WriteNode:
    site = claim.site
    note = (
        Note(claim.noted, claim.cause, reason_of_claim(claim, decision.contests)) if claim.label else Note()
    )
    return WriteNode(site.name, site.uid, site.label, claim.label, claim.holds, note)


# Templates


def postponed(decision: Decision) -> dict[str, str]:
    """Whose template must wait, by claim, and for what."""
    waiting = _waiting(decision)
    held = (each for each in decision.sights.candidates if each.claim in waiting(each))
    return {each.claim: reason_of_wait(decision.intents[each.claim], each) for each in held}


def _templates(decision: Decision) -> Iterator[Work]:
    waiting = _waiting(decision)
    for each in decision.sights.candidates:
        is_held = each.claim in waiting(each)
        work = None if is_held else _template_work(each, decision.intents[each.claim])
        if work is not None:
            yield work


def _waiting(decision: Decision) -> Callable[[Candidate], set[str]]:
    """For a candidate, all that wait as it would."""
    found = {
        Intent.OPENS: _met_by_others(decision),
        Intent.CLOSES: _unlabelled(decision),
        Intent.GOES: _used(decision),
    }
    return lambda candidate: found.get(decision.intents[candidate.claim], set())


def _template_work(candidate: Candidate, intent: Intent) -> Work | None:
    claim, reason = candidate.claim, reason_of_template(intent, candidate)
    match intent:
        case Intent.OPENS:
            return MakeDaemonSet(claim, Template.OPEN, reason)
        case Intent.IS_BORN_CLOSED:
            return MakeDaemonSet(claim, Template.CLOSED, reason)
        case Intent.CLOSES:
            return CloseTemplate(claim, reason)
        case Intent.GOES:
            return DeleteDaemonSet(claim, reason)
        case Intent.STAYS | Intent.ENDS:
            return None


def _met_by_others(decision: Decision) -> set[str]:
    """Who would start beside somebody else: that one's label is not there yet, or its pod still is."""
    opening = {claim for claim, intent in decision.intents.items() if intent is Intent.OPENS}
    bare = (each for each in decision.claims if each.label is None and each.owner) if opening else ()
    pairs = ((each, claim) for each in bare for claim in decision.contests.of(each.site).opens & opening)
    return {claim for each, claim in pairs if each.owner != claim or _is_met(each, decision)}


def _is_met(claim: Claim, decision: Decision) -> bool:
    return claim.site.counts(decision.sights.now) and claim.site.has_pod_of_another(claim.owner)


def _unlabelled(decision: Decision) -> set[str]:
    """Who owns a site that was seen without a label: the controller would end the pod there at once."""
    return {each.owner for each in decision.claims if each.owner and each.site.label is None}


def _used(decision: Decision) -> set[str]:
    """Whose label or pod is on a site."""
    labels = {each.site.label for each in decision.claims if each.site.label is not None}
    return labels | {pod.claim for each in decision.claims for pod in each.site.pods}
