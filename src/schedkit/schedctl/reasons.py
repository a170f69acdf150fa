"""Why a container of ours is not in the kernel: the kernel's words and the scheduler's own, both bounded.

`status` imports this only when there is such a container.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from schedkit.kernel import kmsg
from schedkit.model.exits import exits_since, last_words
from schedkit.runtimes.port import Runtime
from schedkit.schedctl.acting import written
from schedkit.schedctl.hosts import Found

_LONGEST = 500  # characters
_TOLERANCE_S = 1.0  # between the clock of the kernel's log and that of the runtime


def find(root: Path, runtimes: Mapping[str, Runtime], found: Found) -> tuple[str, str]:
    """What the kernel and the scheduler said since the container was started; empty: nothing."""
    began = _since_boot_us(found.container.started_at)
    log = exits_since(kmsg.read(root), began) if began is not None else None
    wrote = written(runtimes[found.driver], found.container.id)
    return last_words(log)[:_LONGEST] if log else "", wrote[-_LONGEST:]


def _since_boot_us(moment: datetime | None) -> int | None:
    """The same moment by the clock of the kernel's log; None if it is not known."""
    if moment is None:
        return None
    seconds_ago = time.time() - moment.timestamp()
    return int((time.monotonic() - seconds_ago - _TOLERANCE_S) * 1e6)
