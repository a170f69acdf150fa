"""What an agent promises to cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.outcomes import Outcome

PLAIN, WITH_METRICS, CROWDED = "plain", "with metrics", "in a crowd"
_MEMORY_MIB = {PLAIN: 40, WITH_METRICS: 48, CROWDED: 40}
_CPU_PERCENT = 0.2


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long, and on how full a machine."""

    idle_s: int = 600
    processes: int = 5000
    files: int = 100_000
    nodes: int = 200  # replayed
    ejects: int = 1000  # on these; 0: they are left out


@dataclass(frozen=True, slots=True)
class Idle:
    """An agent while nothing happened."""

    what: str
    rss_mib: float
    pss_mib: float
    peak_mib: float  # since its start
    cpu_percent: float  # of one core
    writes: int
    load: float  # of the machine at the end


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run measured."""

    idle: Sequence[Idle] = field(default_factory=tuple)
    ejects_s: Sequence[float] = field(default_factory=tuple)  # from an eject to the SchedExt's status


def compare(results: Results) -> tuple[Outcome, ...]:
    """Every target about which something was measured, with what was reached."""
    return (*(outcome for each in results.idle for outcome in _of(each)), *_ejects(results.ejects_s))


def _of(idle: Idle) -> Iterator[Outcome]:
    evidence = f"PSS {idle.pss_mib:.1f} MiB, peak {idle.peak_mib:.1f} MiB"
    limit = _MEMORY_MIB[idle.what]
    yield Outcome(f"memory of an agent, {idle.what}", idle.rss_mib, "at most", limit, "MiB", evidence)
    load = f"load {idle.load:.1f}"
    yield Outcome(
        f"processor of an idle agent, {idle.what}", idle.cpu_percent, "at most", _CPU_PERCENT, "%", load
    )
    yield Outcome(f"writes of an idle agent, {idle.what}", idle.writes, "at most", 0, "", "by the audit log")


def _ejects(seconds: Sequence[float]) -> Iterator[Outcome]:
    if not seconds:
        return
    p99 = percentile(seconds, 99)
    evidence = f"{len(seconds)} ejects, median {percentile(seconds, 50):.2f} s, worst {max(seconds):.2f} s"
    yield Outcome("from an eject to the SchedExt's status, p99", p99, "at most", 1, "s", evidence)


def percentile(values: Sequence[float], share: int) -> float:
    """The value that so many of a hundred do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]
