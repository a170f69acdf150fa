"""`SchedExt`: what users ask for, and what they are told.

Its CRD and the field reference are generated from here.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from schedkit.model.api.pod_fields import (
    CLAIM_KEY,
    LABEL_KEY_RULE,
    LABEL_VALUE_RULE,
    NAME_RULE,
    NOT_THE_CLAIM,
    Affinity,
    BoundedResources,
    Environment,
    LocalReference,
    PullPolicy,
    Tolerations,
)
from schedkit.model.api.schema import ApiType, Rule, Unique, schema
from schedkit.model.images import grammar

GROUP = "sked.schedkit.io"
VERSION = "v1"
KIND = "SchedExt"
PLURAL = "schedexts"

_EXAMPLE = "ghcr.io/schedkit/scx_rusty:v1.0.0"
_IMAGE_FORM = f"write [registry[:port]/]path[:tag][@sha256:...], such as {_EXAMPLE}"
_ANY_END = r"(?:@.*)?$"
# mistakes and what to say about them, in CEL; the first that fits is told
_IMAGE_MISTAKES = (
    ("self == ''", f"'no image is named: {_IMAGE_FORM}'"),
    (r"self.matches(r'\s')", "'an image reference has no spaces or line breaks: remove them'"),
    (
        "self.contains('://')",
        "'an image reference has no scheme: remove \"' + self.split('://')[0] + '://\"'",
    ),
    ("self.matches('^[a-f0-9]{64}$')", f"'64 digits alone are the ID of a local image: {_IMAGE_FORM}'"),
    (
        f"self.contains('@') && !self.matches(r'@{grammar.DIGEST}$')",
        "'the digest must be sha256: and 64 digits from 0-9 and a-f: copy it again, or remove it with its @'",
    ),
    (
        rf"self.matches(r'^[^/@]*[.:\[][^/@]*/') && !self.matches(r'^{grammar.REGISTRY}/')",
        "'the registry, before the first /, must be a host name with an optional port from 1 to 65535'",
    ),
    (
        f"self.matches(r':[^/@]*{_ANY_END}') && !self.matches(r':{grammar.TAG}{_ANY_END}')",
        (
            "'the tag, after the last :, has up to 128 letters, digits, _, . and -, "
            "and must not begin with . or -'"
        ),
    ),
    (
        "self.matches('^[^@]*/[^:@]*[A-Z]') || self.matches('^[^/:@]*[A-Z]')",
        "'the path of an image is in lower case: replace its capital letters'",
    ),
    (
        f"self.matches(r'{grammar.IMAGE}')",
        "'an image reference has at most 255 characters before its tag: shorten it'",
    ),
)
_IMAGE_RULE = Rule(
    f"self.matches(r'{grammar.IMAGE}') && self.matches(r'^[^@]{{1,255}}(?::{grammar.TAG})?{_ANY_END}')"
    " && !self.matches('^[a-f0-9]{64}$')",
    f"not an image reference: {_IMAGE_FORM}",
    " : ".join(f"{mistake} ? {words}" for mistake, words in _IMAGE_MISTAKES)
    + f" : 'not an image reference: {_IMAGE_FORM}'",
)
_MAX_IMAGE = 600  # 255 for the name, and the longest tag and digest
ImageReference: TypeAlias = Annotated[str, schema(_IMAGE_RULE, maxLength=_MAX_IMAGE)]

_IS_LABEL_KEY = f"key.matches(r'{grammar.LABEL_KEY}') && key.matches('^(?:[^/]{{1,253}}/)?[^/]+$')"
_IS_LABEL_VALUE = f"self[key].matches(r'{grammar.LABEL_VALUE}')"
_SELECTOR_RULES = (
    Rule(f"!('{CLAIM_KEY}' in self)", NOT_THE_CLAIM.message),
    Rule(
        f"self.all(key, {_IS_LABEL_KEY})",
        f"a key is {LABEL_KEY_RULE.message}",
        f'\'"\' + self.filter(key, !({_IS_LABEL_KEY}))[0] + "\\" is {LABEL_KEY_RULE.message}"',
    ),
    Rule(
        f"self.all(key, {_IS_LABEL_VALUE})",
        f"a value is {LABEL_VALUE_RULE.message}",
        f'\'the value of "\' + self.filter(key, !{_IS_LABEL_VALUE})[0] + "\\" is {LABEL_VALUE_RULE.message}"',
    ),
)
Selector: TypeAlias = Annotated[
    dict[str, Annotated[str, schema(maxLength=63)]], schema(*_SELECTOR_RULES, maxProperties=32)
]


class HostMount(StrEnum):
    """A folder of the node that some schedulers need."""

    BOOT = "Boot"
    STATS = "Stats"
    TRACING = "Tracing"


class SecurityProfile(StrEnum):
    """What the container may do on its node."""

    PRIVILEGED = "Privileged"
    LEAST_PRIVILEGE = "LeastPrivilege"


_SURGE_RULE = Rule(
    "type(self) == int ? int(self) == 0 : string(self) in ['0', '0%']",
    "a kernel runs one scheduler, so a node cannot run the old and the new pod at once: remove maxSurge, and "
    "say with maxUnavailable how many nodes may change at a time",
)
_UNAVAILABLE_RULE = Rule(
    f"type(self) == int ? int(self) >= 1 : string(self).matches('{grammar.PERCENTAGE}')",
    "must let at least one node change: write a whole number from 1, or a percentage from 1% to 100%",
)


class RollingUpdate(ApiType, frozen=True):
    """How many nodes change at a time."""

    max_unavailable: (
        Annotated[int | str, schema(_UNAVAILABLE_RULE, int_or_string=True, maxLength=8)] | None
    ) = None
    """Nodes that may be without their scheduler at a time: a number or a percentage. 1 if left out."""
    max_surge: Annotated[int | str, schema(_SURGE_RULE, int_or_string=True, maxLength=8)] | None = None
    """Must be 0 or left out: a kernel runs one scheduler."""


class UpdateStrategy(ApiType, frozen=True):
    """How a changed pod template reaches the nodes: as for a DaemonSet, but without surge."""

    type: Annotated[str, schema(enum=["RollingUpdate", "OnDelete"], default="RollingUpdate")] = (
        "RollingUpdate"
    )
    """`RollingUpdate` replaces pods automatically, `OnDelete` only pods that you delete."""
    rolling_update: RollingUpdate | None = None
    """How many nodes change at a time."""


_STRATEGY_RULE = Rule(
    "self.type == 'RollingUpdate' || !has(self.rollingUpdate)",
    "rollingUpdate has no meaning with type OnDelete: remove it, or write type: RollingUpdate",
)


_PRIORITY_CLASS_RULE = Rule(f"self == '' || {NAME_RULE.holds}", NAME_RULE.message)


class SchedExtSpec(ApiType, frozen=True):
    """Which scheduler to run, and where."""

    sched: Annotated[ImageReference, schema(required=True)] = ""
    """Image of the scheduler, used as written, or with its verified digest where signatures are enforced."""
    args: Annotated[
        tuple[Annotated[str, schema(maxLength=4096)], ...], schema(maxItems=64, list_type="atomic")
    ] = ()
    """Arguments for the scheduler. The image's own arguments if left out."""
    env: Environment = ()
    """Variables in the scheduler's environment."""
    resources: BoundedResources | None = None
    """CPU and memory of the scheduler. No requests and no limits if left out."""
    image_pull_policy: PullPolicy | None = None
    """When a node pulls the image. If left out: `Always` if the tag is `latest`, or if the image has neither
    a tag nor a digest; otherwise `IfNotPresent`."""
    image_pull_secrets: Annotated[
        tuple[LocalReference, ...], schema(maxItems=16, list_type="map", list_map_keys=["name"])
    ] = ()
    """Secrets in the same namespace with which nodes pull the image."""
    priority_class_name: Annotated[str, schema(_PRIORITY_CLASS_RULE, maxLength=253)] = ""
    """PriorityClass of the pods."""
    host_pid: Annotated[bool, schema(default=False)] = False
    """Whether the scheduler sees the node's processes and their real process IDs. Some schedulers need it."""
    host_mounts: Annotated[tuple[HostMount, ...], schema(maxItems=3, list_type="set")] = ()
    """Node folders that the scheduler sees: `Boot` is `/boot`, read-only; `Stats` is `/var/run/scx`;
    `Tracing` is `/sys/kernel/tracing`, read-only."""
    node_selector: Selector = {}
    """Labels of the nodes to run on. All nodes if left out."""
    tolerations: Tolerations = ()
    """Taints that do not keep the scheduler away."""
    affinity: Affinity | None = None
    """Which nodes to run on, for choices that `nodeSelector` cannot express."""
    security_profile: Annotated[SecurityProfile, schema(default="Privileged")] = SecurityProfile.PRIVILEGED
    """`Privileged`, or `LeastPrivilege`: only the capabilities `BPF` and `PERFMON`, the
    runtime's seccomp profile, and a read-only root filesystem."""
    suspend: Annotated[bool, schema(default=False)] = False
    """True keeps the resource, but runs nothing."""
    update_strategy: Annotated[UpdateStrategy, schema(_STRATEGY_RULE)] | None = None
    """How a changed spec reaches the nodes. One node at a time if left out."""


# What users are told


class NodeCounts(ApiType, frozen=True, omit_defaults=False):
    """Nodes by state. `desired` is the sum of all other counts except `updated` and `podsReady`."""

    desired: int = 0
    """Nodes that the scheduler should run on."""
    attached: int = 0
    """Nodes whose kernel is proved to run the scheduler."""
    updated: int = 0
    """Attached nodes whose pod is made from the current spec."""
    starting: int = 0
    """Nodes on which the scheduler is being started."""
    failed: int = 0
    """Nodes on which the scheduler cannot run, or was ejected."""
    held: int = 0
    """Nodes on which the scheduler was stopped on purpose."""
    conflicted: int = 0
    """Nodes whose kernel runs another scheduler."""
    ineligible: int = 0
    """Nodes that cannot run sched_ext."""
    unknown: int = 0
    """Nodes on which the scheduler's pod runs, while it is not known what the kernel runs."""
    pods_ready: int = 0
    """Nodes on which the scheduler's pod is ready, whatever the kernel runs."""


class ConditionStatus(StrEnum):
    """The answer to a condition's question."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ConditionType(StrEnum):
    """The types of conditions; every SchedExt has all of them."""

    ACCEPTED = "Accepted"
    VERIFIED = "Verified"
    DEPLOYED = "Deployed"
    PROGRESSING = "Progressing"
    READY = "Ready"


class Condition(ApiType, frozen=True, omit_defaults=False):
    """One question about the resource, with its answer."""

    type: Annotated[str, schema(required=True, maxLength=64)] = ""
    """`Accepted`, `Verified`, `Deployed`, `Progressing` or `Ready`."""
    status: Annotated[ConditionStatus, schema(required=True)] = ConditionStatus.UNKNOWN
    """The answer."""
    observed_generation: Annotated[int, schema(minimum=0)] = 0
    """Generation of the spec that the answer is about."""
    last_transition_time: Annotated[datetime | None, schema(required=True)] = None
    """When the answer last changed."""
    reason: Annotated[str, schema(required=True, minLength=1, maxLength=128)] = ""
    """The answer's reason, in one word."""
    message: Annotated[str, schema(required=True, maxLength=4096)] = ""
    """The reason in plain words, with what to do."""


class NodeTrouble(ApiType, frozen=True, omit_defaults=False):
    """A node that needs attention."""

    name: Annotated[str, schema(required=True, maxLength=253)] = ""
    """Name of the node; empty if its pod has no node yet."""
    reason: Annotated[str, schema(required=True, maxLength=128)] = ""
    """What is wrong, in one word."""
    message: Annotated[str, schema(maxLength=2048)] = ""
    """What is wrong, in plain words."""


class TroubleKind(ApiType, frozen=True, omit_defaults=False):
    """All nodes that need attention for the same reason."""

    reason: Annotated[str, schema(required=True, maxLength=128)] = ""
    """What is wrong, in one word."""
    nodes: Annotated[int, schema(required=True, minimum=0)] = 0
    """How many nodes have this reason."""
    example: Annotated[str, schema(maxLength=253)] = ""
    """Name of one of the nodes; empty if no pod has a node yet."""


MAX_TROUBLES = 10
MAX_PARTS = 16  # more kinds of machines than a fleet has


class Verification(ApiType, frozen=True, omit_defaults=False):
    """The basis of the `Verified` condition."""

    policy: Annotated[str, schema(maxLength=64)] = ""
    """Fingerprint of the policy that was applied."""
    digest: Annotated[str, schema(maxLength=128)] = ""
    """Digest of the verified image; empty if no image was verified."""
    parts: Annotated[
        tuple[Annotated[str, schema(maxLength=128)], ...], schema(maxItems=MAX_PARTS, list_type="atomic")
    ] = ()
    """Digests that pods may report instead for the verified image: some runtimes report the digest of one
    platform's manifest."""


class SchedExtStatus(ApiType, frozen=True):
    """State of the scheduler on its nodes, as sked last saw it."""

    observed_generation: Annotated[int, schema(minimum=0)] = 0
    """Generation of the spec that this status is about."""
    image: Annotated[str, schema(maxLength=1024)] = ""
    """The image that runs, by digest."""
    signer: Annotated[str, schema(maxLength=1024)] = ""
    """Signer of the image; empty if no signature was verified."""
    verification: Verification | None = None
    """The basis of the `Verified` condition. Left out if signatures were not checked."""
    nodes: NodeCounts | None = None
    """Nodes by state."""
    worst_nodes: Annotated[tuple[NodeTrouble, ...], schema(maxItems=5, list_type="atomic")] = ()
    """The nodes that need attention first, at most five."""
    troubles: Annotated[
        tuple[TroubleKind, ...],
        schema(maxItems=MAX_TROUBLES, list_type="map", list_map_keys=["reason"]),
    ] = ()
    """All nodes that need attention, counted by reason, at most ten reasons, the worst first."""
    conditions: Annotated[
        tuple[Condition, ...], schema(maxItems=16, list_type="map", list_map_keys=["type"])
    ] = ()
    """The five conditions of the resource. All of them are always present."""


class ObjectMeta(ApiType, frozen=True):
    """Identity of an object."""

    name: Unique = ""
    namespace: str = ""
    uid: Unique = ""
    resource_version: Unique = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None  # None: nobody deleted it


NEEDS_KEY = f"{GROUP}/needs"
STOP_KEY = f"{GROUP}/stop"


class Annotations(ApiType, frozen=True):
    """The annotations that are read: others may be as long as the API server allows."""

    needs: str = msgspec.field(default="", name=NEEDS_KEY)
    stop: str | None = msgspec.field(default=None, name=STOP_KEY)  # None: nobody has stopped it


class SchedExtMeta(ObjectMeta, frozen=True):
    """Identity of a SchedExt, which features it needs of its manager, and whether somebody stopped it."""

    annotations: Annotations = Annotations()


_NAME_RULE = Rule(
    "size(self.metadata.name) <= 63",
    "a SchedExt's name has at most 63 characters, because its pods carry it as a label: shorten it",
    field_path=".metadata.name",
)


class SchedExt(ApiType, frozen=True):
    """Runs a sched_ext scheduler on the nodes that the spec chooses, or on all nodes."""

    metadata: SchedExtMeta = SchedExtMeta()
    spec: Annotated[SchedExtSpec, schema(required=True)] = SchedExtSpec()
    """Which scheduler to run, and where."""
    status: SchedExtStatus | None = None
    """State of the scheduler on its nodes, as sked last saw it."""


RULES = (_NAME_RULE,)
