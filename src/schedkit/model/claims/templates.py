"""Who is open: of candidates that may want the same node, at most one, and that is the one that already is.

Nobody's pods restart because somebody else came or went. So a template is chosen when a DaemonSet is made,
and changes only together with something that the user changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from schedkit.model.claims.candidates import STARTING, Candidate, Limits, Template
from schedkit.model.claims.rank import rank_of
from schedkit.model.deploy.overlaps import Wish, are_disjoint, wishes


class Intent(StrEnum):
    """What is to become of a template."""

    STAYS = "stays"
    OPENS = "opens"  # there is no DaemonSet yet: it is made open
    IS_BORN_CLOSED = "is born closed"
    CLOSES = "closes"  # once each of its nodes carries its claim
    GOES = "goes"  # its DaemonSet is deleted, once it owns no node
    ENDS = "ends"  # its DaemonSet is deleted at once


def intents(candidates: Iterable[Candidate], limits: Limits) -> dict[str, Intent]:
    """What is to become of each template, by claim."""
    by_age = sorted(candidates, key=lambda each: (rank_of(each, limits)[2:], each.place))
    found = dict(_forced(by_age, limits))
    opened = _Opened()
    present = [each for each in by_age if each.template in STARTING and found.get(each.claim) is None]
    # those that do not change stay as they are; of those that change, the oldest has the best chance
    for each in sorted(present, key=lambda one: one.asks_for_another_template):
        meets = each.asks_for_another_template and opened.meets(each)
        found[each.claim] = Intent.CLOSES if meets else Intent.STAYS
        if not meets:
            opened.add(each)
    for each in by_age:
        if each.claim not in found:
            found[each.claim] = opened.intent_of_new(each, limits)
    return found


def _forced(candidates: Iterable[Candidate], limits: Limits) -> Iterator[tuple[str, Intent]]:
    """What needs no comparison with others."""
    for each in candidates:
        intent = _alone(each, limits)
        if intent is not None:
            yield each.claim, intent


def _alone(candidate: Candidate, limits: Limits) -> Intent | None:
    if candidate.template is Template.ABSENT:
        return None if candidate.may_start else Intent.STAYS
    is_closed = candidate.template is Template.CLOSED
    # no label takes its nodes from an open one: it is the SchedExt itself, and was deleted
    if candidate.stop is not None or candidate.is_suspended or (candidate.is_leaving and not is_closed):
        return Intent.ENDS
    if is_closed:
        return Intent.GOES if candidate.is_leaving else Intent.STAYS
    must_close = limits.is_bound(candidate) and candidate.asks_for_another_template
    return Intent.CLOSES if must_close else None


class _Opened:
    """Templates that are open, or will be."""

    def __init__(self) -> None:
        self._wishes: list[tuple[Wish, ...]] = []

    def add(self, candidate: Candidate) -> None:
        self._wishes.append(_wishes_of(candidate))

    def meets(self, candidate: Candidate) -> bool:
        """Whether one of them may want a node of the candidate's."""
        mine = _wishes_of(candidate)
        return any(not are_disjoint(mine, each) for each in self._wishes)

    def intent_of_new(self, candidate: Candidate, limits: Limits) -> Intent:
        if candidate.pool or limits.is_bound(candidate) or self.meets(candidate):
            return Intent.IS_BORN_CLOSED
        self.add(candidate)
        return Intent.OPENS


def _wishes_of(candidate: Candidate) -> tuple[Wish, ...]:
    return tuple(wishes(candidate.selector, candidate.affinity))


def opening_claims(candidates: Iterable[Candidate], wanted: Mapping[str, Intent]) -> frozenset[str]:
    """Whose templates start without a label, once what is made or deleted at once is."""
    starting = (each.claim for each in candidates if each.template in STARTING)
    staying = {claim for claim in starting if wanted[claim] is not Intent.ENDS}
    return frozenset(staying | {claim for claim, intent in wanted.items() if intent is Intent.OPENS})
