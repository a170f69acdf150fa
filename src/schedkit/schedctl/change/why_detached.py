"""Why a container of ours is not in the kernel: the kernel's words and the scheduler's own, both bounded.

`status` imports this only when there is such a container.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.kernel import kmsg, processes
from schedkit.model.host.containers import Container
from schedkit.model.kernel.log import exits_since, last_words
from schedkit.runtimes.errors import ContainerRuntimeError

if TYPE_CHECKING:  # `status` asks a runtime, and does without all that the others ask of it
    from schedkit.runtimes.containers import Output
    from schedkit.runtimes.port import Runtime

_LONGEST = 500  # characters
_TOLERANCE_S = 1.0  # between the clock of the kernel's log and that of the runtime


def find(root: Path, runtimes: Mapping[str, Runtime], container: Container) -> tuple[str, str]:
    """What the kernel and the scheduler said since the container was started; empty: nothing."""
    began = began_us(root, container)
    log = exits_since(kmsg.read(root), began) if began is not None else None
    wrote = written(runtimes[container.driver], container.id)
    return last_words(log)[:_LONGEST] if log else "", wrote[-_LONGEST:]


def began_us(root: Path, container: Container) -> int | None:
    """When its program began, by the clock of the kernel's log; None if it is not known.

    That clock stands still while a machine sleeps: then it is a moment before.
    """
    age_s = _age_s(root, container)
    return None if age_s is None else int((time.monotonic() - age_s - _TOLERANCE_S) * 1e6)


def _age_s(root: Path, container: Container) -> float | None:
    """What the kernel says counts: the runtime's clock may have been set since."""
    ticks = processes.beginning(root / "proc" / str(container.pid)) if container.pid else None
    if ticks is not None:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    began = container.started_at
    return time.time() - began.timestamp() if began else None


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
