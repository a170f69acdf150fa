"""The parts of a pod that a SchedExt passes on, with the meaning they have on a pod.

The same types are read from a SchedExt and written into a pod template, so nothing is translated.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from schedkit.model.api.schema import ApiType, Rule, schema
from schedkit.model.images import grammar

CLAIM_KEY = "sked.schedkit.io/claim"

# Values that several fields share

NAME_RULE = Rule(
    f"self.matches(r'{grammar.OBJECT_NAME}')",
    "not a name Kubernetes can give to an object: use lower case letters, digits, '-' and '.', and start and "
    "end with a letter or digit",
)
ObjectName: TypeAlias = Annotated[str, schema(NAME_RULE, maxLength=253)]

LABEL_KEY_RULE = Rule(
    f"self.matches(r'{grammar.LABEL_KEY}') && self.matches('^(?:[^/]{{1,253}}/)?[^/]+$')",
    "not a label key: write name or prefix/name, where the name has at most 63 letters, digits, '-', '_' and "
    "'.' and the prefix is a DNS name such as example.com",
)
NOT_THE_CLAIM = Rule(
    f"self != '{CLAIM_KEY}'",
    f"{CLAIM_KEY} is written by sked, to give each node one owner: choose nodes by another label",
)
LabelKey: TypeAlias = Annotated[str, schema(LABEL_KEY_RULE, maxLength=317)]
NodeLabelKey: TypeAlias = Annotated[str, schema(LABEL_KEY_RULE, NOT_THE_CLAIM, maxLength=317)]

LABEL_VALUE_RULE = Rule(
    f"self.matches(r'{grammar.LABEL_VALUE}')",
    "not a label value: use at most 63 letters, digits, '-', '_' and '.', and start and end with a letter or "
    "digit",
)
LabelValue: TypeAlias = Annotated[str, schema(LABEL_VALUE_RULE, maxLength=63)]


# Where pods run


class Toleration(ApiType, frozen=True):
    """A taint that does not keep pods away."""

    key: Annotated[
        str,
        schema(
            Rule(f"self == '' || ({LABEL_KEY_RULE.holds})", LABEL_KEY_RULE.message),
            maxLength=317,
        ),
    ] = ""
    """Key of the taint. Empty, with the operator `Exists`, means every taint."""
    operator: Annotated[str, schema(enum=["Exists", "Equal"])] | None = None
    """`Equal` compares key and value, `Exists` only the key. `Equal` if left out."""
    value: LabelValue = ""
    """Value of the taint, for the operator `Equal`."""
    effect: Annotated[str, schema(enum=["NoSchedule", "PreferNoSchedule", "NoExecute"])] | None = None
    """Effect of the taint. Every effect if left out."""
    toleration_seconds: int | None = None
    """Seconds that pods stay on a node after it gets a `NoExecute` taint. For ever if left out."""


_TOLERATION_RULES = (
    Rule(
        "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
        "without a key the operator must be Exists: name the taint's key, or write operator: Exists to "
        "tolerate every taint",
    ),
    Rule(
        "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
        "operator Exists compares no value: remove value, or write operator: Equal",
    ),
    Rule(
        "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        "tolerationSeconds counts only for NoExecute taints: write effect: NoExecute, or remove "
        "tolerationSeconds",
    ),
)
Tolerations: TypeAlias = Annotated[
    tuple[Annotated[Toleration, schema(*_TOLERATION_RULES)], ...], schema(maxItems=64, list_type="atomic")
]


class NodeLabelRequirement(ApiType, frozen=True):
    """A condition on one label of a node."""

    key: Annotated[NodeLabelKey, schema(required=True)] = ""
    """Key of the label."""
    operator: Annotated[
        str, schema(required=True, enum=["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    ] = ""
    """How the label is compared."""
    values: Annotated[tuple[LabelValue, ...], schema(maxItems=64, list_type="atomic")] = ()
    """At least one value for `In` and `NotIn`, one number for `Gt` and `Lt`, not set for other operators."""


class NodeFieldRequirement(ApiType, frozen=True):
    """A condition on a node's name."""

    key: Annotated[str, schema(required=True, enum=["metadata.name"])] = ""
    """`metadata.name`: Kubernetes compares no other field."""
    operator: Annotated[str, schema(required=True, enum=["In", "NotIn"])] = ""
    """How the name is compared."""
    values: Annotated[
        tuple[ObjectName, ...], schema(required=True, minItems=1, maxItems=1, list_type="atomic")
    ] = ()
    """Exactly one node name."""


_REQUIREMENT_RULES = (
    Rule(
        "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
        "operators In and NotIn compare with values: list at least one value, or write operator: Exists",
    ),
    Rule(
        "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
        "operators Exists and DoesNotExist compare with no value: remove values, or write operator: In",
    ),
    Rule(
        "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1"
        " && self.values[0].matches('^[0-9]+$'))",
        "operators Gt and Lt compare with one whole number: write it in quotes, as the only item of values",
    ),
)


class NodeSelectorTerm(ApiType, frozen=True):
    """Requirements that a node must all meet. A term without requirements matches no node."""

    match_expressions: Annotated[
        tuple[Annotated[NodeLabelRequirement, schema(*_REQUIREMENT_RULES)], ...],
        schema(maxItems=16, list_type="atomic"),
    ] = ()
    """Requirements on the node's labels."""
    match_fields: Annotated[tuple[NodeFieldRequirement, ...], schema(maxItems=4, list_type="atomic")] = ()
    """Requirements on the node's name."""


class NodeSelector(ApiType, frozen=True):
    """Terms; a node must meet at least one of them."""

    node_selector_terms: Annotated[
        tuple[NodeSelectorTerm, ...], schema(required=True, minItems=1, maxItems=16, list_type="atomic")
    ] = ()
    """The terms."""


class PreferredSchedulingTerm(ApiType, frozen=True):
    """A term with a weight. It has no effect: a DaemonSet runs a pod on every node that it may use."""

    weight: Annotated[int, schema(required=True, minimum=1, maximum=100)] = 0
    """From 1 to 100."""
    preference: Annotated[NodeSelectorTerm, schema(required=True)] | None = None
    """The term."""


class NodeAffinity(ApiType, frozen=True):
    """Which nodes pods may run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Requirements that a node must meet."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredSchedulingTerm, ...], schema(maxItems=16, list_type="atomic")
    ] = ()
    """Preferences among nodes. They have no effect on a DaemonSet."""


class Affinity(ApiType, frozen=True):
    """Which nodes pods may run on, for choices that a selector cannot express."""

    node_affinity: NodeAffinity | None = None
    """Rules about the nodes' labels and names. Affinity to pods is not offered: a scheduler serves a whole
    node."""


# What runs in the container


class FieldReference(ApiType, frozen=True):
    """A field of the pod."""

    field_path: Annotated[
        str,
        schema(
            Rule(
                'self.matches(r"^(?:metadata\\.(?:name|namespace|uid)|spec\\.(?:nodeName|serviceAccountName)'
                '|status\\.(?:hostIPs?|podIPs?))$")',
                "not a field that Kubernetes hands to a container: write one of metadata.name, "
                "metadata.namespace, metadata.uid, spec.nodeName, spec.serviceAccountName, status.hostIP, "
                "status.hostIPs, status.podIP, status.podIPs",
            ),
            required=True,
            maxLength=64,
        ),
    ] = ""
    """Path of the field, such as `spec.nodeName`."""


_DATA_KEY_RULE = Rule(
    f"self.matches(r'{grammar.DATA_KEY}') && self != '.' && !self.startsWith('..')",
    "not a key that a Secret or ConfigMap can have: use letters, digits, '-', '_' and '.'",
)


class KeyReference(ApiType, frozen=True):
    """A key of a ConfigMap or Secret in the same namespace."""

    name: Annotated[ObjectName, schema(required=True)] = ""
    """Name of the ConfigMap or Secret."""
    key: Annotated[str, schema(_DATA_KEY_RULE, required=True, maxLength=253)] = ""
    """Key in the ConfigMap or Secret."""
    optional: bool | None = None
    """Whether the container starts without the variable if the key does not exist."""


class EnvVarSource(ApiType, frozen=True):
    """Where a variable's value comes from."""

    field_ref: FieldReference | None = None
    """A field of the pod."""
    config_map_key_ref: KeyReference | None = None
    """A key of a ConfigMap."""
    secret_key_ref: KeyReference | None = None
    """A key of a Secret."""


_ONE_SOURCE = Rule(
    "[has(self.fieldRef), has(self.configMapKeyRef), has(self.secretKeyRef)].filter(it, it).size() == 1",
    "a value has one source: write exactly one of fieldRef, configMapKeyRef and secretKeyRef",
)
_ENV_NAME_RULE = Rule(
    f"self.matches(r'{grammar.ENV_NAME}') && self != '.' && !self.startsWith('..')",
    "not a name of an environment variable: use letters, digits, '_', '-' and '.', and do not start with a "
    "digit",
)


class EnvVar(ApiType, frozen=True):
    """A variable in the container's environment."""

    name: Annotated[str, schema(_ENV_NAME_RULE, required=True, maxLength=253)] = ""
    """Name of the variable."""
    value: Annotated[str, schema(maxLength=32768)] = ""
    """Value of the variable. `$(NAME)` stands for the value of another variable."""
    value_from: Annotated[EnvVarSource, schema(_ONE_SOURCE)] | None = None
    """Where the value comes from, instead of `value`."""


_ONE_VALUE = Rule(
    "!has(self.valueFrom) || !has(self.value) || self.value == ''",
    "a variable has one value: remove value or valueFrom",
)
Environment: TypeAlias = Annotated[
    tuple[Annotated[EnvVar, schema(_ONE_VALUE)], ...],
    schema(maxItems=64, list_type="map", list_map_keys=["name"]),
]

Quantity: TypeAlias = Annotated[int | str, schema(int_or_string=True, maxLength=32)]
_QUANTITY_RULES = (
    Rule(
        "self.all(name, name in ['cpu', 'memory', 'ephemeral-storage'])",
        "a scheduler can ask for cpu, memory and ephemeral-storage: remove other resources",
        "'\"' + self.filter(name, !(name in ['cpu', 'memory', 'ephemeral-storage']))[0]"
        " + '\" is not a resource for schedulers: ask for cpu, memory or ephemeral-storage'",
    ),
    Rule(
        "self.all(name, type(self[name]) == int ? int(self[name]) >= 0"
        " : isQuantity(string(self[name])) && quantity(string(self[name])).compareTo(quantity('0')) >= 0)",
        "an amount must be a number that is 0 or greater, with an optional unit: "
        "write for example 500m, 2, 64Mi or 1Gi",
    ),
)
# with more than there are, Kubernetes 1.30 refuses the CRD: it estimates that the rules cost too much
Amounts: TypeAlias = Annotated[dict[str, Quantity], schema(*_QUANTITY_RULES, maxProperties=3)]


class Resources(ApiType, frozen=True):
    """CPU and memory of the container."""

    requests: Amounts = {}
    """Amounts that a node must have free. The same as `limits` if left out."""
    limits: Amounts = {}
    """The most that the container may use."""


_REQUEST_WITHIN_LIMIT = Rule(
    "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits)"
    " || !isQuantity(string(self.requests[name])) || !isQuantity(string(self.limits[name]))"
    " || quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
    "a request must not exceed its limit: lower the amount in requests, or raise the amount in limits",
)
BoundedResources: TypeAlias = Annotated[Resources, schema(_REQUEST_WITHIN_LIMIT)]

PullPolicy: TypeAlias = Annotated[str, schema(enum=["Always", "IfNotPresent", "Never"])]


class LocalReference(ApiType, frozen=True):
    """An object in the same namespace."""

    name: Annotated[ObjectName, schema(required=True)] = ""
    """Name of the object."""
