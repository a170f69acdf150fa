"""The answer of `schedctl status` as programs read it: its schema follows from these types.

They stand apart because `status` starts quickly: only its types are checked by them, and it runs without.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class SchedulerShown(TypedDict):
    """Our container: the one whose scheduler the kernel runs, if there are several."""

    name: str
    container_id: str
    image: str
    image_id: NotRequired[str]
    pid: int
    started_at: str | None


class KernelShown(TypedDict):
    """What the kernel itself says."""

    supported: bool
    enabled: bool
    ops: str  # the scheduler's own name for itself; empty: none is attached
    state: str
    enable_seq: int | None
    switch_all: bool | None
    nr_rejected: int | None
    hotplug_seq: int | None


class OwnerShown(TypedDict):
    """Whose the attached scheduler is; only what is known is there."""

    kind: str  # managed, foreign, orphan or unknown
    pid: NotRequired[int]
    command: NotRequired[str]
    container_id: NotRequired[str]
    pod_uid: NotRequired[str]
    pod_namespace: NotRequired[str]  # with its name, where the node has the logs of that pod
    pod_name: NotRequired[str]
    unit: NotRequired[str]
    reason: NotRequired[str]


class LeftoverShown(TypedDict):
    """A container of ours that does not run: it has ended, or a change was interrupted before it began."""

    name: str
    container_id: str
    driver: str
    state: str  # created, exited or unknown


class StatusShown(TypedDict):
    """What is optional is absent when there is no such thing."""

    schema_version: str
    status: str
    driver: str
    scheduler: NotRequired[SchedulerShown]
    kernel: KernelShown
    owner: NotRequired[OwnerShown]
    discrepancy: NotRequired[str]
    kernel_words: NotRequired[str]  # why our container is not attached, by the kernel
    last_words: NotRequired[str]  # and by its scheduler
    leftovers: NotRequired[list[LeftoverShown]]
    message: str
    next: str
    observed_at: NotRequired[str]  # only with --watch
