"""Whose the attached scheduler is, and how to end what is not ours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from schedkit.model.host.containers import Container
from schedkit.model.host.processes import Hold, Place, Process, Proof, is_in_container, place_of

EJECT = "eject it: `schedctl reset`"  # what ends a scheduler that no process would take along
_WHOLE_ID, _SHORT_ID = 64, 12  # characters of a container's id


class OwnerKind(StrEnum):
    """Whose the attached scheduler is."""

    NONE = "none"  # none is attached
    MANAGED = "managed"  # one of our containers'
    STRAY = "stray"  # only in the table: of one of ours that has ended, and left a process
    FOREIGN = "foreign"  # somebody else's
    ORPHAN = "orphan"  # no process's
    UNKNOWN = "unknown"  # it could not be proved


class Owner(NamedTuple):
    """The owner, with what is known about it. Empty: there is nothing such, or it is not known."""

    kind: OwnerKind
    pid: int = 0
    command: str = ""
    container_id: str = ""
    container: str = ""  # its name, for ours
    pod_uid: str = ""
    unit: str = ""
    reason: str = ""  # why it is an orphan or unknown
    ends_with_process: bool = True  # False: the kernel keeps the scheduler when the process is gone
    is_users_unit: bool = False  # the unit is one of a user's own systemd
    pod: str = ""  # its namespace/name

    @property
    def service(self) -> str:
        """The unit if it is a service; a session, and what keeps a user's units, are none."""
        is_service = self.unit.endswith(".service") and not self.unit.startswith("user@")
        return self.unit if is_service else ""

    def __str__(self) -> str:
        process = f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"
        named = (
            (self.container, f"container {self.container}"),
            (self.pod_uid, Place(pod_uid=self.pod_uid, pod=self.pod).pod_words),
            (self.container_id, f"container {_short(self.container_id)}"),
            (self.service, f"{process} in the systemd unit {self.unit}"),
            (self.pid, process),
        )
        return next((words for value, words in named if value), "nobody")


def attribute(proof: Proof, ours: Sequence[Container] | None, *, silent: Collection[str] = ()) -> Owner:
    """Whose the proved process is; foreign only if every runtime that may have started it was asked."""
    if proof.hold is Hold.NOTHING:
        return Owner(OwnerKind.NONE)
    if proof.hold is Hold.NOBODY:
        return Owner(OwnerKind.ORPHAN, reason=proof.reason, ends_with_process=False)
    if proof.process is None:
        return Owner(OwnerKind.UNKNOWN, reason=proof.reason)
    owner = _of(proof.process, ours, silent)
    return owner._replace(ends_with_process=proof.hold is Hold.LINK)


def _of(process: Process, ours: Sequence[Container] | None, silent: Collection[str]) -> Owner:
    place = place_of(process)
    known = Owner(
        OwnerKind.FOREIGN,
        pid=process.pid,
        command=process.command,
        container_id=place.container_id,
        pod_uid=place.pod_uid,
        unit=place.unit,
        is_users_unit=place.is_users_unit,
        pod=place.pod,
    )
    for container in ours or ():
        if is_in_container(process, container.id, container.pid):
            return known._replace(kind=OwnerKind.MANAGED, container=container.name, container_id=container.id)
    if place.driver and not place.pod_uid and (ours is None or place.driver in silent):
        named = _short(place.container_id)
        words = f"it runs in container {named}, and {place.driver} does not say whether schedkit started it"
        return known._replace(kind=OwnerKind.UNKNOWN, reason=words)
    return known


def _short(container_id: str) -> str:
    """As runtimes print it; an id that is a name stays whole."""
    return container_id[:_SHORT_ID] if len(container_id) == _WHOLE_ID else container_id


def way_to_end(owner: Owner) -> str:
    """How to end a scheduler that is not ours."""
    if not owner.pid:
        return EJECT
    ending = _way_to_end_process(owner)
    if owner.ends_with_process:
        return ending
    return f"{ending}; the kernel keeps the scheduler even then, so {EJECT}"


def _way_to_end_process(owner: Owner) -> str:
    if owner.pod_uid:
        return f"{_way_to_end_pod(owner)}; Kubernetes starts again what schedctl ends"
    if owner.container_id:
        return f"stop container {_short(owner.container_id)} with the program that started it"
    if not owner.service:
        return f"`kill {owner.pid}`"
    # not at once: a process that was started by hand may be in the unit of whatever one logs in with
    stop = "systemctl --user stop" if owner.is_users_unit else "systemctl stop"
    who = " as the unit's user" if owner.is_users_unit else ""
    return f"`kill {owner.pid}`; if it comes back, run `{stop} {owner.service}`{who}"


def _way_to_end_pod(owner: Owner) -> str:
    """In its cluster, for good: a pod that is deleted comes back while anything wants it."""
    wanting = "with kubectl, suspend its SchedExt, or delete its DaemonSet if it has no SchedExt"
    if not owner.pod:
        return f"{wanting} (the pod's uid is {owner.pod_uid})"
    namespace, _, name = owner.pod.partition("/")
    return f"{wanting} (`kubectl -n {namespace} describe pod {name}` names it)"
