"""What a runtime says beside a `Container`: what one wrote; and what marks those of ours.

Every call of schedctl that asks for a status imports this: it holds what those need, as named tuples, which
are made five times as fast as dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

# what the Go schedctl marks its Podman containers with; its containerd ones live in the namespace
PROVIDER_LABEL = ("provider", "schedkit")
NAMESPACE = "schedkit"
# what only the adapters themselves need: which call created a container, and when its program began
CREATION_LABEL = "org.schedkit.creation"
STARTED_AT_LABEL = "org.schedkit.started-at"
KILL_TIMEOUT_S = 60.0  # for what was killed to be gone; only a process that hangs in the kernel takes longer


def shown(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels without those that are of use to the adapters alone."""
    hidden = {CREATION_LABEL, STARTED_AT_LABEL}
    return {name: value for name, value in labels.items() if name not in hidden}


class Stream(Enum):
    """Where a program wrote something."""

    STDOUT = 1
    STDERR = 2


class Output(NamedTuple):
    """Some bytes that a program wrote, in the order in which it wrote them."""

    stream: Stream
    data: bytes
