"""Whether two SchedExts may want the same node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from schedkit.model.podparts import Affinity, NodeAffinity, NodeFieldRequirement, NodeLabelRequirement
from schedkit.model.schedext import SchedExt

Requirement = NodeLabelRequirement | NodeFieldRequirement
# requirements that a node meets all together
Wish = tuple[Requirement, ...]


def first_rival(schedext: SchedExt, others: Iterable[SchedExt]) -> SchedExt | None:
    """The first of the others whose nodes are not provably different ones."""
    if schedext.spec.suspend:
        return None
    wishes = tuple(wishes_of(schedext))
    return next(
        (
            other
            for other in others
            if other.metadata.uid != schedext.metadata.uid
            and not other.spec.suspend
            and other.metadata.deletion_timestamp is None
            and not are_disjoint(wishes, tuple(wishes_of(other)))
        ),
        None,
    )


def wishes_of(schedext: SchedExt) -> Iterator[Wish]:
    """Alternatives: a node that meets one of them is wanted. Taints come and go, and prove nothing."""
    selected = tuple(
        NodeLabelRequirement(key=key, operator="In", values=(value,))
        for key, value in schedext.spec.node_selector.items()
    )
    affinity = (schedext.spec.affinity or Affinity()).node_affinity or NodeAffinity()
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        yield selected
        return
    for term in required.node_selector_terms:
        if term.match_expressions or term.match_fields:  # an empty term matches no node
            yield (*selected, *term.match_expressions, *term.match_fields)


def are_disjoint(one: tuple[Wish, ...], other: tuple[Wish, ...]) -> bool:
    """Whether no node can be wanted by both."""
    return all(_contradict(mine, theirs) for mine, theirs in product(one, other))


def _contradict(mine: Wish, theirs: Wish) -> bool:
    """Whether no node can meet both. Also true if one of them contradicts itself."""
    both = (*mine, *theirs)
    return any(_exclude(one, other) for one, other in product(both, both) if _subject(one) == _subject(other))


def _subject(requirement: Requirement) -> tuple[bool, str]:
    return isinstance(requirement, NodeFieldRequirement), requirement.key


def _exclude(one: Requirement, other: Requirement) -> bool:
    """Whether no value meets both; comparisons of numbers prove nothing here."""
    match one.operator, other.operator:
        case "In", "In":
            return set(one.values).isdisjoint(other.values)
        case "In", "NotIn":
            return set(one.values) <= set(other.values)
        case "DoesNotExist", "In" | "Exists" | "Gt" | "Lt":
            return True
    return False
