"""What a scheduler wrote last, on one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from schedkit.runtimes.errors import ContainerRuntimeError

if TYPE_CHECKING:  # `status` asks a runtime, and does without all that the others ask of it
    from schedkit.runtimes.containers import Output
    from schedkit.runtimes.port import Runtime

_LAST_LINES = 5


def written(runtime: Runtime, name: str) -> str:
    """The last lines of a container's output, on one line; empty if there are none."""
    try:
        return joined(runtime.logs(name, tail=_LAST_LINES))
    except ContainerRuntimeError:
        return ""


def joined(outputs: Iterable[Output]) -> str:
    """What a program wrote, on one line."""
    text = b"".join(output.data for output in outputs).decode(errors="replace")
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())
