"""What a command costs from its start to its end, as the kernel counts it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.base.errors import RigError


@dataclass(frozen=True, slots=True)
class Cost:
    """One run of a command."""

    who: str
    cpu_s: float  # in its own code and in the kernel, of all its threads
    wall_s: float


def measure(who: str, argv: Sequence[str | Path], env: Mapping[str, str]) -> tuple[Cost, str]:
    """Run it to its end; what that cost, and what it printed. `RigError` if it failed."""
    began = time.monotonic()
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        try:
            printed = child.stdout.read() if child.stdout else ""
            _, status, used = os.wait4(child.pid, 0)
            wall_s = time.monotonic() - began
            child.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if child.returncode is None:
                child.kill()
    if child.returncode != 0:
        raise RigError(f"{who} ended with {child.returncode}: {printed}")
    return Cost(who, used.ru_utime + used.ru_stime, wall_s), printed
