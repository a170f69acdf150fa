"""Which nodes a candidate wants, as Kubernetes decides it for the pods of a DaemonSet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schedkit.model.api.nodes import Taint
from schedkit.model.api.pod_fields import (
    Affinity,
    NodeAffinity,
    NodeFieldRequirement,
    NodeLabelRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Toleration,
)
from schedkit.model.claims.candidates import Candidate

OS_LABEL, ARCHITECTURE_LABEL = "kubernetes.io/os", "kubernetes.io/arch"
# what Kubernetes itself says about a node comes and goes, and never moves a claim
KUBERNETES_OWN = "node.kubernetes.io/"
_COMPARING = frozenset({"Gt", "Lt"})
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})


def _own(name: str, effect: str) -> Toleration:
    return Toleration(key=f"{KUBERNETES_OWN}{name}", operator="Exists", effect=effect)


# what the DaemonSet controller adds to its pods; only pods in the node's network tolerate a missing one
DAEMON_TOLERATIONS = (
    _own("not-ready", "NoExecute"),
    _own("unreachable", "NoExecute"),
    _own("disk-pressure", "NoSchedule"),
    _own("memory-pressure", "NoSchedule"),
    _own("pid-pressure", "NoSchedule"),
    _own("unschedulable", "NoSchedule"),
)


# Labels, affinity, operating system and architecture


def selects(candidate: Candidate, name: str, labels: Mapping[str, str]) -> bool:
    """Whether its pod template selects the node, whatever claims and taints say."""
    if any(labels.get(key) != value for key, value in candidate.selector.items()):
        return False
    required = _required(candidate)
    return required is None or any(_meets(term, name, labels) for term in required.node_selector_terms)


def fits(candidate: Candidate, labels: Mapping[str, str]) -> bool:
    """Whether its image can run there: a node that does not say what it is may be anything."""
    architecture = labels.get(ARCHITECTURE_LABEL)
    is_known = candidate.architectures is not None and architecture is not None
    is_ours = not is_known or architecture in (candidate.architectures or ())
    return is_ours and labels.get(OS_LABEL, "linux") == "linux"


def values_of(candidate: Candidate) -> Iterable[tuple[str, tuple[str, ...] | None]]:
    """The labels that it looks at, with the values that it tells from others; None: from all others."""
    yield from ((key, (value,)) for key, value in candidate.selector.items())
    for term in _terms(candidate):
        for each in term.match_expressions:
            yield each.key, None if each.operator in _COMPARING else each.values


def names_of(candidate: Candidate) -> Iterable[str]:
    """The nodes that it looks at by name."""
    return (name for term in _terms(candidate) for each in term.match_fields for name in each.values)


def _required(candidate: Candidate) -> NodeSelector | None:
    wanted = (candidate.affinity or Affinity()).node_affinity or NodeAffinity()
    return wanted.required_during_scheduling_ignored_during_execution


def _terms(candidate: Candidate) -> tuple[NodeSelectorTerm, ...]:
    required = _required(candidate)
    return required.node_selector_terms if required else ()


def _meets(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Requirements are ANDed; an empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = all(_holds(each, name) for each in term.match_fields)
    return fields and all(_holds(each, labels.get(each.key)) for each in term.match_expressions)


def _holds(requirement: NodeLabelRequirement | NodeFieldRequirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return _compares(requirement.operator, value, requirement.values)


def _compares(operator: str, value: str | None, values: tuple[str, ...]) -> bool:
    """`Gt` and `Lt`; what is no whole number is neither greater nor less."""
    try:
        found, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return found > bound if operator == "Gt" else operator == "Lt" and found < bound


# Taints


def telling_taints(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Those that decide who may newly get the node."""
    return tuple(each for each in taints if not each.key.startswith(KUBERNETES_OWN))


def may_come(candidate: Candidate, taints: Iterable[Taint]) -> bool:
    """Whether no taint keeps a new pod of it away."""
    return all(_is_tolerated(each, candidate.tolerations) for each in taints if each.effect in _KEEPS_AWAY)


def may_stay(candidate: Candidate, taints: Iterable[Taint]) -> bool:
    """Whether no taint ends a pod of it that is there."""
    return all(_is_tolerated(each, candidate.tolerations) for each in taints if each.effect == "NoExecute")


def would_start(candidate: Candidate, taints: Iterable[Taint]) -> bool:
    """Whether the DaemonSet controller would make a pod there now."""
    tolerations = (*candidate.tolerations, *DAEMON_TOLERATIONS)
    return all(_is_tolerated(each, tolerations) for each in taints if each.effect in _KEEPS_AWAY)


def _is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Without an effect, every effect; without a key, every taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == taint.value)
