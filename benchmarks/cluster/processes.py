"""What a process costs, as the kernel counts it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    """In MiB."""

    rss: float
    pss: float  # pages that several processes share count in parts
    peak: float  # the highest resident size so far


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used in all its threads, in its own code and in the kernel."""
    return parse_cpu_s(Path(f"/proc/{pid}/stat").read_text())


def parse_cpu_s(stat: str) -> float:
    """Read utime and stime; the name before them may hold anything, also parentheses and spaces."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def memory(pid: int) -> Memory:
    """What a process holds now."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    status = Path(f"/proc/{pid}/status").read_text()
    return Memory(parse_mib(rollup, "Rss"), parse_mib(rollup, "Pss"), parse_mib(status, "VmHWM"))


def parse_mib(text: str, name: str) -> float:
    """The figure of that name, of which the kernel gives kB."""
    match = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"the kernel gives no {name}: it says\n{text}")
    return int(match[1]) / 1024
