"""Whether two SchedExts may want the same node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import TypeAlias

from schedkit.model.api.pod_fields import Affinity, NodeAffinity, NodeFieldRequirement, NodeLabelRequirement
from schedkit.model.api.schedext import SchedExt

Requirement: TypeAlias = NodeLabelRequirement | NodeFieldRequirement
# whether it is a field of a node or a label, and its name
Subject: TypeAlias = tuple[bool, str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """All that is required of one subject; comparisons of numbers prove no more than that it is there."""

    allowed: frozenset[str] | None = None  # without those that are excluded; None: any other value
    excluded: frozenset[str] = frozenset()
    must_exist: bool = False
    must_not_exist: bool = False

    @property
    def can_be_met(self) -> bool:
        """Whether there is a value, or the lack of one, that they admit."""
        return not (self.must_exist and self.must_not_exist) and self.allowed != frozenset()


# what a node meets all together
Wish: TypeAlias = dict[Subject, Bounds]


def wishes_of(schedext: SchedExt) -> Iterator[Wish]:
    """Alternatives: a node that meets one of them is wanted. None of them contradicts itself.

    Taints come and go, and prove nothing.
    """
    return wishes(schedext.spec.node_selector, schedext.spec.affinity)


def wishes(selector: Mapping[str, str], affinity: Affinity | None) -> Iterator[Wish]:
    """As `wishes_of`, by the two fields that say it."""
    found = _alternatives(selector, (affinity or Affinity()).node_affinity or NodeAffinity())
    return (wish for wish in found if all(bounds.can_be_met for bounds in wish.values()))


def _alternatives(selector: Mapping[str, str], affinity: NodeAffinity) -> Iterator[Wish]:
    selected: Wish = {
        (False, key): Bounds(allowed=frozenset({value}), must_exist=True) for key, value in selector.items()
    }
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        yield selected
        return
    for term in required.node_selector_terms:
        if term.match_expressions or term.match_fields:  # an empty term matches no node
            requirements: tuple[Requirement, ...] = (*term.match_expressions, *term.match_fields)
            yield reduce(_narrowed, requirements, selected)


def _narrowed(wish: Wish, requirement: Requirement) -> Wish:
    """The wish of those that want this as well."""
    subject = isinstance(requirement, NodeFieldRequirement), requirement.key
    return wish | {subject: _bounded(wish.get(subject, Bounds()), requirement)}


def _bounded(bounds: Bounds, requirement: Requirement) -> Bounds:
    allowed, values = bounds.allowed, frozenset(requirement.values)
    match requirement.operator:
        case "In":
            named = values - bounds.excluded if allowed is None else values & allowed
            return replace(bounds, allowed=named, must_exist=True)
        case "NotIn":
            left = None if allowed is None else allowed - values
            return replace(bounds, allowed=left, excluded=bounds.excluded | values)
        case "DoesNotExist":
            return replace(bounds, must_not_exist=True)
    return replace(bounds, must_exist=True)


def are_disjoint(one: tuple[Wish, ...], other: tuple[Wish, ...]) -> bool:
    """Whether no node can be wanted by both."""
    return all(_contradict(mine, theirs) for mine, theirs in product(one, other))


def _contradict(mine: Wish, theirs: Wish) -> bool:
    """Whether no node can meet both.

    In the order of the wish, not of a set: how much work it is must not hang on hashes.
    """
    for subject, bounds in mine.items():  # noqa: SIM110  # a generator would double the calls
        if subject in theirs and _exclude(bounds, theirs[subject]):
            return True
    return False


def _exclude(one: Bounds, other: Bounds) -> bool:
    """Whether nothing meets both."""
    if (one.must_exist and other.must_not_exist) or (one.must_not_exist and other.must_exist):
        return True
    if one.allowed is None:
        return other.allowed is not None and other.allowed <= one.excluded
    if other.allowed is None:
        return one.allowed <= other.excluded
    return one.allowed.isdisjoint(other.allowed)
