"""The DaemonSet of a SchedExt.

Its template is final: whatever else changes here must not change the pods of a SchedExt that did not change,
because that restarts schedulers on a whole fleet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from schedkit.model.api.daemonset import (
    Capabilities,
    Container,
    DaemonSet,
    DaemonSetSpec,
    EmptyDir,
    HostPath,
    LabelledMeta,
    LabelSelector,
    OwnerReference,
    PodSpec,
    PodTemplate,
    SeccompProfile,
    SecurityContext,
    TemplateMeta,
    Volume,
    VolumeMount,
)
from schedkit.model.api.pod_fields import (
    CLAIM_KEY,
    Affinity,
    NodeAffinity,
    NodeLabelRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Resources,
)
from schedkit.model.api.schedext import (
    GROUP,
    KIND,
    VERSION,
    HostMount,
    SchedExt,
    SchedExtSpec,
    SecurityProfile,
)
from schedkit.model.kernel.least_privilege import least_privilege

CONTAINER = "scx"
MANAGED_BY = "managed-by"
MANAGER = "sked-controller"
_MAX_LABEL_VALUE = 63
_CLAIM_DIGITS = 12

_PRIVILEGED = SecurityContext(privileged=True)
_LEAST_PRIVILEGE = SecurityContext(
    capabilities=Capabilities(
        add=tuple(each.removeprefix("CAP_") for each in least_privilege()), drop=("ALL",)
    ),
    seccomp_profile=SeccompProfile(type="RuntimeDefault"),
    read_only_root_filesystem=True,
)
SECURITY: Mapping[SecurityProfile, SecurityContext] = MappingProxyType(
    {SecurityProfile.PRIVILEGED: _PRIVILEGED, SecurityProfile.LEAST_PRIVILEGE: _LEAST_PRIVILEGE}
)
# beside a root that cannot be written to: schedulers keep their sockets and locks there
_RUN = (Volume(name="run", empty_dir=EmptyDir()), VolumeMount(name="run", mount_path="/run"))
_HOST_MOUNTS: Mapping[HostMount, tuple[Volume, VolumeMount]] = MappingProxyType(
    {
        HostMount.BOOT: (
            Volume(name="boot", host_path=HostPath(path="/boot")),
            VolumeMount(name="boot", mount_path="/boot", read_only=True),
        ),
        HostMount.STATS: (
            Volume(name="stats", host_path=HostPath(path="/var/run/scx", type="DirectoryOrCreate")),
            VolumeMount(name="stats", mount_path="/var/run/scx"),
        ),
        # a kernel that cannot trace has no such folder: the pod then says so, instead of its scheduler
        HostMount.TRACING: (
            Volume(name="tracing", host_path=HostPath(path="/sys/kernel/tracing", type="Directory")),
            VolumeMount(name="tracing", mount_path="/sys/kernel/tracing", read_only=True),
        ),
    }
)
VOLUME_NAMES = frozenset(volume.name for volume, _ in (_RUN, *_HOST_MOUNTS.values()))


def render(schedext: SchedExt, image: str | None = None) -> DaemonSet:
    """The DaemonSet that this SchedExt asks for; `image` is its image by another name, if not its own."""
    name = schedext.metadata.name
    return DaemonSet(
        api_version="apps/v1",
        kind="DaemonSet",
        metadata=LabelledMeta(
            name=name,
            namespace=schedext.metadata.namespace,
            labels={MANAGED_BY: MANAGER},
            owner_references=(_owner(schedext),),
        ),
        spec=DaemonSetSpec(
            selector=LabelSelector(match_labels={"name": name}),
            template=render_template(schedext, image),
            update_strategy=schedext.spec.update_strategy,
        ),
    )


def _owner(schedext: SchedExt) -> OwnerReference:
    """Deleting the SchedExt removes the DaemonSet, with no finalizer and nobody's help."""
    return OwnerReference(
        api_version=f"{GROUP}/{VERSION}",
        kind=KIND,
        name=schedext.metadata.name,
        uid=schedext.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def render_template(schedext: SchedExt, image: str | None = None) -> PodTemplate:
    """The pods of this SchedExt; as for `render`."""
    spec, mounted = schedext.spec, _mounted(schedext.spec)
    pod = PodSpec(
        containers=(_container(spec, image or spec.sched, tuple(mount for _, mount in mounted)),),
        volumes=tuple(volume for volume, _ in mounted),
        node_selector=spec.node_selector,
        affinity=_affinity(schedext),
        tolerations=spec.tolerations,
        host_pid=spec.host_pid,
        image_pull_secrets=spec.image_pull_secrets,
        priority_class_name=spec.priority_class_name,
        # a scheduler has nothing to ask the API server
        automount_service_account_token=False,
    )
    return PodTemplate(metadata=_labels(schedext), spec=pod)


def _labels(schedext: SchedExt) -> TemplateMeta:
    return TemplateMeta(labels={"name": schedext.metadata.name, MANAGED_BY: MANAGER})


def _container(spec: SchedExtSpec, image: str, mounts: tuple[VolumeMount, ...]) -> Container:
    return Container(
        name=CONTAINER,
        image=image,
        args=spec.args,
        env=spec.env,
        resources=None if spec.resources == Resources() else spec.resources,
        image_pull_policy=spec.image_pull_policy,
        security_context=SECURITY[spec.security_profile],
        # without it a BPF program that the kernel refused leaves no trace in the pod
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=mounts,
    )


def _mounted(spec: SchedExtSpec) -> tuple[tuple[Volume, VolumeMount], ...]:
    """Volumes with where they are mounted; in one order, in which order ever they were asked for."""
    run = (_RUN,) if spec.security_profile is SecurityProfile.LEAST_PRIVILEGE else ()
    return (*run, *(_HOST_MOUNTS[mount] for mount in HostMount if mount in spec.host_mounts))


def _affinity(schedext: SchedExt) -> Affinity:
    wanted = (schedext.spec.affinity or Affinity()).node_affinity or NodeAffinity()
    required = wanted.required_during_scheduling_ignored_during_execution or NodeSelector()
    claim = claim_value(schedext.metadata.namespace, schedext.metadata.name)
    terms = open_terms(claim, required.node_selector_terms)
    narrowed = NodeSelector(node_selector_terms=terms)
    node_affinity = msgspec.structs.replace(
        wanted, required_during_scheduling_ignored_during_execution=narrowed
    )
    return Affinity(node_affinity=node_affinity)


# Who owns which node: a kernel runs one scheduler.
#
# Ownership is written on a node as a label, and only where several want it. A template that is *open* admits
# nodes without that label, or with its own claim.


def claim_value(namespace: str, name: str) -> str:
    """The label value that stands for this SchedExt: its name for people, a hash for certainty."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:_CLAIM_DIGITS]
    readable = name[: _MAX_LABEL_VALUE - _CLAIM_DIGITS - 1].rstrip("-.")
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


# The Go sked's

LEGACY_LACKS = (
    "the node affinity with which several SchedExts share nodes, terminationMessagePolicy "
    "FallbackToLogsOnError, and automountServiceAccountToken false"
)


def legacy_template(schedext: SchedExt) -> PodTemplate | None:
    """What the Go sked renders; None if the spec asks for something that it does not know."""
    pod = PodSpec(
        containers=(Container(name=CONTAINER, image=schedext.spec.sched, security_context=_PRIVILEGED),)
    )
    bare = SchedExtSpec(sched=schedext.spec.sched)
    same_pods = msgspec.structs.replace(bare, update_strategy=schedext.spec.update_strategy) == schedext.spec
    return PodTemplate(metadata=_labels(schedext), spec=pod) if same_pods else None
