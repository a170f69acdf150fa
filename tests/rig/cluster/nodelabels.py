"""Node selection as Kubernetes does it, written down once more so that tests have a witness of their own."""

from __future__ import annotations

from hypothesis import strategies as st

from schedkit.model.api.pod_fields import NodeLabelRequirement, NodeSelectorTerm


def term_matches(term: NodeSelectorTerm, labels: dict[str, str]) -> bool:
    """Whether the Kubernetes scheduler lets such a pod onto a node with those labels."""
    return bool(term.match_expressions) and all(
        _meets(each, labels.get(each.key)) for each in term.match_expressions
    )


def _meets(requirement: NodeLabelRequirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise AssertionError(requirement)


requirements = st.one_of(
    st.builds(
        NodeLabelRequirement,
        key=st.sampled_from("ab"),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from("xy"), min_size=1, max_size=2).map(tuple),
    ),
    st.builds(
        NodeLabelRequirement,
        key=st.sampled_from("ab"),
        operator=st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
terms = st.builds(NodeSelectorTerm, match_expressions=st.lists(requirements, max_size=2).map(tuple))
node_labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xyz"))
