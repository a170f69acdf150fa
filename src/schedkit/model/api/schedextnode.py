"""`SchedExtNode`: what one node's kernel runs, as the agent on that node reports it.

Its CRD and the field reference are generated from here. Nobody but the node's own agent writes it, so that it
has no status apart: there is one kind of write.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from schedkit.model.api.schema import ApiType, Unique, schema

KIND = "SchedExtNode"
PLURAL = "schedextnodes"
SHORT_NAME = "scxn"

MAX_EXITS = 8
MAX_FINDINGS = 16
MAX_WORDS = 512
MAX_OPS = 128  # the kernel's own limit
_MAX_NAME = 256


class NodeOwnerKind(StrEnum):
    """Whose the attached scheduler is, proved by what processes hold open."""

    NONE = "None"  # no scheduler is attached
    POD = "Pod"  # a pod's of this node
    SCHEDCTL = "Schedctl"  # a container's that schedctl started
    FOREIGN = "Foreign"  # anybody else's
    ORPHAN = "Orphan"  # no process's: the kernel keeps it by itself
    UNKNOWN = "Unknown"  # the agent could not prove it


class Eligibility(StrEnum):
    """Whether the kernel can run schedulers, by its own answers."""

    YES = "Yes"
    NO = "No"
    UNKNOWN = "Unknown"


# made by functions, these defaults are written: a column that says `Unknown` is better than an empty one


def _unknown_kind() -> NodeOwnerKind:
    return NodeOwnerKind.UNKNOWN


def _unknown_eligibility() -> Eligibility:
    return Eligibility.UNKNOWN


class NodeKernel(ApiType, frozen=True):
    """The kernel that the node has booted."""

    release: Annotated[str, schema(maxLength=_MAX_NAME)] = ""
    """Release, as `uname -r` prints it."""
    architecture: Annotated[str, schema(maxLength=32)] = ""
    """Architecture, as `uname -m` prints it."""
    boot_id: Annotated[Unique, schema(maxLength=64)] = ""
    """Identity of this boot. A report of another boot says nothing about now."""


class NodeOwner(ApiType, frozen=True):
    """Whose the attached scheduler is."""

    kind: Annotated[NodeOwnerKind, schema(required=True)] = msgspec.field(default_factory=_unknown_kind)
    """`None`, `Pod`, `Schedctl`, `Foreign`, `Orphan` or `Unknown`."""
    name: Annotated[str, schema(maxLength=_MAX_NAME)] = ""
    """The owner in a few words: a pod's UID, a container, a systemd unit, or a program's path."""
    pod_uid: Annotated[Unique, schema(maxLength=64)] = ""
    """UID of the pod."""
    container_id: Annotated[Unique, schema(maxLength=128)] = ""
    """ID of the container."""
    unit: Annotated[str, schema(maxLength=_MAX_NAME)] = ""
    """Systemd unit of a scheduler that no container runs."""
    program: Annotated[str, schema(maxLength=_MAX_NAME)] = ""
    """Path of the program, without its arguments."""
    reason: Annotated[str, schema(maxLength=MAX_WORDS)] = ""
    """Why the scheduler has no owner, or why the owner could not be proved."""


class NodeExit(ApiType, frozen=True):
    """The end of a scheduler, from the kernel's log; the same end several times in a row is one entry."""

    ops: Annotated[str, schema(maxLength=MAX_OPS)] = ""
    """Name of the scheduler, as the kernel knew it."""
    kind: Annotated[int, schema(minimum=0)] = 0
    """The kernel's number for the end: below 1024 an orderly end, 67 SysRq-S, from 1024 on an eject."""
    reason: Annotated[str, schema(maxLength=128)] = ""
    """The kernel's words for the kind."""
    message: Annotated[str, schema(maxLength=MAX_WORDS)] = ""
    """What the kernel said about the last of these ends."""
    task: Annotated[str, schema(maxLength=64)] = ""
    """The task that did not run, if the kernel named one."""
    count: Annotated[int, schema(minimum=1)] = 1
    """How many times in a row the scheduler ended so."""
    first_time: datetime | None = None
    """When the first of these ends happened, by the node's clock."""
    time: datetime | None = None
    """When the last of these ends happened, by the node's clock."""
    owner: Annotated[str, schema(maxLength=16)] = ""
    """Whose scheduler ended: a kind of owner, proved before the end; empty if the agent had not seen it."""
    pod_uid: Annotated[str, schema(maxLength=64)] = ""
    """UID of the pod whose scheduler ended."""
    log_time: Annotated[int, schema(minimum=0)] = 0
    """When the last of these ends happened, in microseconds of the kernel's log."""


class NodeFinding(ApiType, frozen=True):
    """What one check of `schedctl doctor` found about the kernel."""

    id: Annotated[str, schema(required=True, maxLength=64)] = ""
    """The check, such as `kernel.btf`."""
    status: Annotated[str, schema(required=True, maxLength=16)] = ""
    """`pass`, `fail` or `skip`."""
    detail: Annotated[str, schema(maxLength=MAX_WORDS)] = ""
    """What was found."""


class NodeAgent(ApiType, frozen=True):
    """The agent that wrote the report."""

    version: Annotated[str, schema(maxLength=64)] = ""
    """Version of sked."""
    pod_uid: Annotated[Unique, schema(maxLength=64)] = ""
    """UID of the agent's pod."""


class SchedExtNodeStatus(ApiType, frozen=True):
    """What the agent saw when it last looked and something had changed."""

    node_uid: Annotated[Unique, schema(maxLength=64)] = ""
    """UID of the Node that the agent runs on."""
    kernel: NodeKernel = NodeKernel()
    """The kernel that the node has booted."""
    state: Annotated[str, schema(maxLength=32)] = ""
    """The kernel's own word: `enabled`, `disabled`, `enabling`, `disabling`; `absent` without sched_ext."""
    ops: Annotated[str, schema(maxLength=MAX_OPS)] = ""
    """Name of the attached scheduler, as the kernel knows it."""
    enable_seq: Annotated[int | None, schema(minimum=0)] = None
    """How many schedulers were attached since boot."""
    since: datetime | None = None
    """When the agent first saw state, scheduler and owner as they are now, by the node's clock."""
    owner: NodeOwner = NodeOwner()
    """Whose the attached scheduler is."""
    eligible: Eligibility = msgspec.field(default_factory=_unknown_eligibility)
    """Whether the kernel can run schedulers: `Yes`, `No` or `Unknown`."""
    findings: Annotated[
        tuple[NodeFinding, ...], schema(maxItems=MAX_FINDINGS, list_type="map", list_map_keys=["id"])
    ] = ()
    """What the checks of the kernel found."""
    exits: Annotated[tuple[NodeExit, ...], schema(maxItems=MAX_EXITS, list_type="atomic")] = ()
    """The last ends of schedulers, the newest last."""
    exits_since: datetime | None = None
    """Since when the list of ends is complete; left out if it is complete since boot."""
    exits_problem: Annotated[str, schema(maxLength=MAX_WORDS)] = ""
    """Why the kernel's log cannot be read; empty if it can."""
    agent: NodeAgent = NodeAgent()
    """The agent that wrote the report."""
    reported_at: datetime | None = None
    """When the report was written, by the node's clock."""


class OwnerReference(ApiType, frozen=True, omit_defaults=False):
    """The object that takes this one along when it is deleted."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class SchedExtNodeMeta(ApiType, frozen=True):
    """Identity of a report."""

    name: Unique = ""
    namespace: str = ""  # always empty
    uid: Unique = ""
    resource_version: Unique = ""
    labels: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()


class SchedExtNode(ApiType, frozen=True):
    """Reports what the kernel of one node runs. The agent on that node writes it."""

    metadata: SchedExtNodeMeta = SchedExtNodeMeta()
    status: SchedExtNodeStatus | None = None
    """What the agent saw."""
