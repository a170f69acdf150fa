"""Who holds the attached scheduler, and where that process belongs. `holders` says how it is proved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

_CONTAINER = r"(?:^|[-/:])([0-9a-f]{64})(?:\.scope)?(?=/|$)"
_POD = r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?=[/:]|$)"
# <namespace>_<name>_<uid>, as kubelets name the folders of logs; neither name has a `_` in it
_POD_LOGS = r"([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)_([a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?)_([-0-9a-f]+)"
_PODMAN = "libpod-"
_OUR_NAMESPACE = "schedkit"  # of containerd, which names control groups after it
_OUR_CONTAINER = rf"/{_OUR_NAMESPACE}/([^/]+)(?=/|$)"
_UNIT = r"([^/]+\.(?:service|scope))(?=/|$)"
_MANAGER_OF_USER = r"(?:^|/)user@\d+\.service/"


class Process(NamedTuple):
    """A process that holds a link or a map."""

    pid: int
    ancestors: tuple[int, ...] = ()  # its parent first
    command: str = ""
    cgroups: tuple[str, ...] = ()  # its paths, one for each hierarchy
    program: str = ""  # the path of its file; empty: unknown
    pod: str = ""  # namespace/name of the pod that it is in; empty: it is in none, or that is unknown


class Hold(StrEnum):
    """What keeps a scheduler attached."""

    NOTHING = "nothing"  # none is attached
    LINK = "link"  # ends with its process
    MAP = "map"  # its process lives, but its end alone would not detach it
    NOBODY = "nobody"  # no process would take it along
    UNKNOWN = "unknown"


class Proof(NamedTuple):
    """Which process holds the attached scheduler."""

    hold: Hold
    process: Process | None = None  # None: there is none, or it is unknown
    reason: str = ""  # of `NOBODY` and `UNKNOWN`, as a sentence
    map_id: int | None = None  # None: unknown


class Place(NamedTuple):
    """Where a process belongs, by its control groups. Empty: it belongs to none such."""

    container_id: str = ""
    pod_uid: str = ""
    unit: str = ""
    driver: str = ""  # runtime to ask whether the container is ours; empty: neither can have created it
    is_users_unit: bool = False  # the unit is one of a user's own systemd
    pod: str = ""  # its namespace/name; empty: only its uid is known

    @property
    def pod_words(self) -> str:
        """The pod by the name that its cluster knows, if it is known."""
        return f"pod {self.pod or self.pod_uid} (Kubernetes)"


def place_of(process: Process) -> Place:
    """The innermost container, the pod and the systemd unit that a process is in."""
    units = [unit for unit in _found(_UNIT, process) if not re.search(_CONTAINER, unit)]
    pod = _last(_found(_POD, process)).replace("_", "-")
    container = _last(_containers(process))
    is_users = any(re.search(_MANAGER_OF_USER, path) for path in process.cgroups)
    driver = _driver(process, container)
    return Place(container, pod, _last(units), driver, is_users and bool(units), process.pod if pod else "")


def pod_named(log_folders: Iterable[str], uid: str) -> str:
    """The namespace/name of a pod, by the folders that the node's kubelet keeps for logs; empty: unknown."""
    found = [match.groups() for each in log_folders if (match := re.fullmatch(_POD_LOGS, each))]
    names = {f"{namespace}/{name}" for namespace, name, whose in found if whose == uid}
    return names.pop() if len(names) == 1 else ""


def _containers(process: Process) -> list[str]:
    """The ids of the containers that a process is in, the innermost last."""
    either = f"{_OUR_CONTAINER}|{_CONTAINER}"
    return [one or other for path in process.cgroups for one, other in re.findall(either, path)]


def _driver(process: Process, container: str) -> str:
    if container in _found(_OUR_CONTAINER, process):
        return "containerd"
    return "podman" if container and any(_PODMAN + container in path for path in process.cgroups) else ""


def _found(pattern: str, process: Process) -> list[str]:
    return [part for path in process.cgroups for part in re.findall(pattern, path)]


def _last(found: Sequence[str]) -> str:
    return found[-1] if found else ""


def is_in_container(process: Process, container_id: str, first_pid: int | None) -> bool:
    """Whether the process is the container's first, descends from it, or is in its control group."""
    if first_pid and first_pid in (process.pid, *process.ancestors):
        return True
    return container_id in _containers(process)
