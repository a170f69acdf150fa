"""Who wants which sites, for a whole fleet: sites that look alike to all candidates are one contest.

A fleet has thousands of nodes of a few kinds: of labels that every node has for itself, such as its name,
only the values count that somebody asks for. And each candidate is found by one label that it demands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from schedkit.model.api.nodes import Taint
from schedkit.model.claims.candidates import STARTING, Candidate, Limits, Template
from schedkit.model.claims.placement import (
    ARCHITECTURE_LABEL,
    OS_LABEL,
    fits,
    may_come,
    may_stay,
    names_of,
    selects,
    telling_taints,
    values_of,
)
from schedkit.model.claims.rank import Rank, rank_of
from schedkit.model.claims.sites import Site


class Contest(msgspec.Struct, frozen=True):
    """Who wants the sites of one kind."""

    ranked: tuple[Candidate, ...]  # who may newly get them, the first in rank first; one for each SchedExt
    keeping: dict[str, Candidate]  # who may keep one that it runs on, by SchedExt
    opens: frozenset[str]  # claims whose templates start there without a label, or will
    outsiders: frozenset[str]  # of these, whose namespace may not have them
    holder_of_free: str  # the SchedExt that a site without a label belongs to; empty: none


_ANY = " "  # no label has that value
_Kind: TypeAlias = tuple[tuple[str | None, ...], tuple[Taint, ...], str]


class Contests:
    """All candidates, ready to be asked about sites."""

    def __init__(self, candidates: Iterable[Candidate], limits: Limits, opening: frozenset[str]) -> None:
        """`opening`: claims that are open, or will be once their DaemonSet is made."""
        self.by_claim = {each.claim: each for each in candidates}
        self.resources = {claim: each.resource for claim, each in self.by_claim.items()}
        self.limits, self._opening = limits, opening
        everybody = self.by_claim.values()
        self._ranks: dict[str, Rank] = {each.claim: rank_of(each, limits) for each in everybody}
        self._values = tuple(sorted(self._looked_at().items()))
        self._names = frozenset(name for each in everybody for name in names_of(each))
        self._filed = _filed(everybody)
        self._known: dict[_Kind, Contest] = {}

    def priority_of(self, candidate: Candidate) -> tuple[bool, int]:
        """What nobody's presence on a node outweighs; the smaller goes first."""
        return self._ranks[candidate.claim][:2]

    def of(self, site: Site) -> Contest:
        """Who wants that site."""
        taints = telling_taints(site.taints) if site.taints else ()
        kind = self._told_apart(site.labels), taints, site.name if site.name in self._names else ""
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = self._contest(site, taints)
        return found

    def _told_apart(self, labels: Mapping[str, str]) -> tuple[str | None, ...]:
        """The values that decide about anybody; all that nobody asks for are alike."""
        read = labels.get
        found = [(read(key), asked) for key, asked in self._values]
        return tuple(
            [value if value is None or asked is None or value in asked else _ANY for value, asked in found]
        )

    def _looked_at(self) -> dict[str, set[str] | None]:
        """The labels that decide about anybody, with the values that are asked for; None: each counts."""
        found: dict[str, set[str] | None] = {OS_LABEL: None, ARCHITECTURE_LABEL: None}
        of_candidates = (pair for each in self.by_claim.values() for pair in values_of(each))
        bound = (each.selector for each in self.limits.namespaces.values())
        of_namespaces = ((key, (value,)) for each in bound for key, value in each.items())
        for key, values in (*of_candidates, *of_namespaces):
            known = found.setdefault(key, set())
            found[key] = None if known is None or values is None else known.union(values)
        return found

    def _contest(self, site: Site, taints: tuple[Taint, ...]) -> Contest:
        selecting = [each for each in self._near(site.labels) if selects(each, site.name, site.labels)]
        inside = [each for each in selecting if self._is_inside(each, site.labels)]
        parts = self._parts(each for each in inside if each.wants_nodes and fits(each, site.labels))
        opens = frozenset(each.claim for each in selecting if each.claim in self._opening)
        return Contest(
            ranked=tuple(each for each in parts if may_come(each, taints)),
            keeping={each.resource: each for each in parts if may_stay(each, taints)},
            opens=opens,
            outsiders=opens - {each.claim for each in inside},
            holder_of_free=self._holder_of_free(parts, opens),
        )

    def _near(self, labels: Mapping[str, str]) -> Iterator[Candidate]:
        """All that may select such a node, and few others."""
        yield from self._filed.get(None, ())
        for item in labels.items():
            yield from self._filed.get(item, ())

    def _is_inside(self, candidate: Candidate, labels: Mapping[str, str]) -> bool:
        bound = self.limits.namespaces.get(candidate.namespace)
        return bound is None or all(labels.get(key) == value for key, value in bound.selector.items())

    def _parts(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Of each SchedExt the first of its pools, or itself; in rank order."""
        first: dict[str, Candidate] = {}
        for each in sorted(candidates, key=lambda one: one.place):
            first.setdefault(each.resource, each)
        return sorted(first.values(), key=lambda one: self._ranks[one.claim])

    def _holder_of_free(self, parts: Iterable[Candidate], opens: frozenset[str]) -> str:
        """Its template starts there by itself, or did so until a human stopped it."""
        wanting = {each.resource for each in parts}
        starting = (self.by_claim[claim] for claim in opens)
        present = [each for each in starting if each.resource in wanting and each.template in STARTING]
        resting = [each for each in parts if _is_at_rest(each)]
        found = min(present or resting, key=lambda one: self._ranks[one.claim], default=None)
        return found.resource if found else ""


def _is_at_rest(candidate: Candidate) -> bool:
    return candidate.stop is not None and not candidate.pool and candidate.template is not Template.CLOSED


def _filed(candidates: Iterable[Candidate]) -> dict[tuple[str, str] | None, list[Candidate]]:
    """Each under one label that it demands; under None, who demands none."""
    files: defaultdict[tuple[str, str] | None, list[Candidate]] = defaultdict(list)
    for each in candidates:
        files[min(each.selector.items(), default=None)].append(each)
    return dict(files)
