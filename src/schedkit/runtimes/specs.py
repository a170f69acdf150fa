"""Containers to create, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedkit.model.trust.verified import Admission

from schedkit.model.kernel.least_privilege import least_privilege

# kept of one container's output; older output is dropped
LOG_LIMIT_BYTES = 4 << 20
_USUAL = least_privilege()


@dataclass(frozen=True, slots=True)
class Privileged:
    """Everything the runtime can grant."""


@dataclass(frozen=True, slots=True)
class LeastPrivilege:
    """These capabilities and no others, on a root filesystem that cannot be written."""

    capabilities: tuple[str, ...] = _USUAL


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine that the container sees; it must exist."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A container to create. It sees the host's processes and no network, and may write to its own /run."""

    name: str
    image: str  # by digest, as it was loaded
    admission: Admission  # why the image may run
    args: tuple[str, ...] = ()  # empty: the image's own
    labels: Mapping[str, str] = field(default_factory=dict)
    privileges: Privileged | LeastPrivilege = Privileged()
    mounts: tuple[Mount, ...] = ()
    memory_limit_bytes: int | None = None  # None: only the machine's own limit
    has_input: bool = False  # its program reads what whoever attaches gives it; else it finds the end at once
