"""Who owns which node: a kernel runs one scheduler.

Ownership is written on a node as a label, and only where several want it. A template that is *open* admits
nodes without that label, or with its own claim.
"""

from __future__ import annotations

import hashlib

from schedkit.model.api.pod_fields import CLAIM_KEY, NodeLabelRequirement, NodeSelectorTerm

_MAX_LABEL_VALUE = 63
_DIGITS = 12


def claim_value(namespace: str, name: str) -> str:
    """The label value that stands for this SchedExt: its name for people, a hash for certainty."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:_DIGITS]
    readable = name[: _MAX_LABEL_VALUE - _DIGITS - 1].rstrip("-.")
    return f"{readable}-{digest}"


def open_terms(value: str, wanted: tuple[NodeSelectorTerm, ...] = ()) -> tuple[NodeSelectorTerm, ...]:
    """The user's terms, each narrowed to nodes that nobody else claims.

    Terms are ORed, so each must be narrowed; "absent or mine" takes two. An empty term matches no node and
    stays as it is: narrowed, it would match some.
    """
    unclaimed = NodeLabelRequirement(key=CLAIM_KEY, operator="DoesNotExist")
    mine = NodeLabelRequirement(key=CLAIM_KEY, operator="In", values=(value,))
    if not wanted:
        return NodeSelectorTerm(match_expressions=(unclaimed,)), NodeSelectorTerm(match_expressions=(mine,))
    return tuple(part for term in wanted for part in _narrowed(term, unclaimed, mine))


def _narrowed(term: NodeSelectorTerm, *claims: NodeLabelRequirement) -> tuple[NodeSelectorTerm, ...]:
    if term == NodeSelectorTerm():
        return (term,)
    return tuple(
        NodeSelectorTerm(match_expressions=(*term.match_expressions, claim), match_fields=term.match_fields)
        for claim in claims
    )
