"""The fields of a DaemonSet that `deploy.render` writes, and no others.

What is read into these types is compared with what was rendered, so a field that is not here is never
touched: a hand-added annotation, a DNS policy or an init container stays.
"""

from __future__ import annotations

import msgspec

from schedkit.model.api.pod_fields import Affinity, EnvVar, LocalReference, Resources, Toleration
from schedkit.model.api.schedext import Annotations, ObjectMeta, UpdateStrategy
from schedkit.model.api.schema import ApiType


class OwnerReference(ApiType, frozen=True):
    """The owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class OwnedMeta(ObjectMeta, frozen=True):
    """Identity and owners of an object."""

    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object; None: it has no manager."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class DaemonSetAnnotations(Annotations, frozen=True):
    """The annotations of a DaemonSet that are read."""

    # the number of its template, which only grows; its pods have it as a label
    template: str = msgspec.field(default="", name="deprecated.daemonset.template.generation")


class LabelledMeta(OwnedMeta, frozen=True):
    """Identity, owners and labels of an object, and which features it needs of its manager."""

    labels: dict[str, str] = {}
    annotations: DaemonSetAnnotations = DaemonSetAnnotations()


class Capabilities(ApiType, frozen=True):
    """Capabilities that the container gets or loses."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SeccompProfile(ApiType, frozen=True):
    """Which system calls the container may make."""

    type: str = ""


class SecurityContext(ApiType, frozen=True):
    """What the container may do; also fields that sked never writes, so that it notices additions."""

    privileged: bool | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: SeccompProfile | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None


class VolumeMount(ApiType, frozen=True):
    """Where the container sees a volume."""

    name: str = ""
    mount_path: str = ""
    read_only: bool = False


class Container(ApiType, frozen=True):
    """The scheduler's container."""

    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: Resources | None = None
    image_pull_policy: str | None = None
    security_context: SecurityContext | None = None
    termination_message_policy: str | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()


class HostPath(ApiType, frozen=True):
    """A folder of the node."""

    path: str = ""
    type: str = ""


class EmptyDir(ApiType, frozen=True):
    """A folder that lives as long as its pod."""


class Volume(ApiType, frozen=True):
    """Something that containers can mount."""

    name: str = ""
    host_path: HostPath | None = None
    empty_dir: EmptyDir | None = None


class PodSpec(ApiType, frozen=True):
    """What a pod is made of."""

    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_pid: bool = False
    image_pull_secrets: tuple[LocalReference, ...] = ()
    priority_class_name: str = ""
    automount_service_account_token: bool | None = None


class TemplateMeta(ApiType, frozen=True):
    """What the pods are labelled with."""

    labels: dict[str, str] = {}


class PodTemplate(ApiType, frozen=True):
    """What each pod is made from. Changing the template restarts schedulers."""

    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()


class LabelSelector(ApiType, frozen=True):
    """Which pods belong to the DaemonSet."""

    match_labels: dict[str, str] = {}


class DaemonSetSpec(ApiType, frozen=True):
    """What to run on each node."""

    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()
    update_strategy: UpdateStrategy | None = None


class DaemonSetStatus(ApiType, frozen=True):
    """What the DaemonSet controller reports."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0


class DaemonSet(ApiType, frozen=True):
    """Runs a pod on each eligible node."""

    api_version: str = ""
    kind: str = ""
    metadata: LabelledMeta = LabelledMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()

    @property
    def is_seen_by_its_controller(self) -> bool:
        """Whether the status is about the current spec."""
        return self.status.observed_generation >= self.metadata.generation

    @property
    def is_rolled_out(self) -> bool:
        """Whether every pod is made from this template, as far as the DaemonSet controller knows."""
        seen = self.status
        is_complete = seen.updated_number_scheduled >= seen.desired_number_scheduled
        return self.is_seen_by_its_controller and is_complete
