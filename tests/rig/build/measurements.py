"""Measuring what a scheduler needs: it is started with less and less, and what becomes of it is the answer.

Only what was seen counts. An attempt that came to no end in its time proves nothing, and leaves a fact
unknown: a slow machine must not look like a need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from schedkit.model.catalog import Fact, Measured, Needs, OpsName

# the least first; SYS_ADMIN contains the others, and much more
CAPABILITIES: Final = ((), ("BPF",), ("BPF", "PERFMON"), ("SYS_ADMIN",))
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Confinement:
    """What an attempt leaves the scheduler."""

    capabilities: tuple[str, ...] | None = None  # None: all
    host_pids: bool = True
    boot_config: bool = True
    writable_run: bool = True

    def __str__(self) -> str:
        return " and ".join(_describe(self)) or "everything"


def _describe(confinement: Confinement) -> Iterator[str]:
    if confinement.capabilities is not None:
        yield f"the capabilities {', '.join(confinement.capabilities) or '(none)'}"
    if not confinement.host_pids:
        yield "process ids of its own"
    if not confinement.boot_config:
        yield "no kernel configuration in /boot"
    if not confinement.writable_run:
        yield "a /run that cannot be written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of a scheduler in one attempt."""

    ops: str = ""  # empty: the kernel did not run it
    attach_s: float = 0
    is_held: bool = False  # until it was told to end, and provably by the process that was started
    ended_by_itself: bool = False  # before it was told to
    exit_code: int = 0
    words: str = ""  # the last that it said
    reason: str = ""  # of its end, from the kernel's log
    stats_socket: str = ""  # where it answered; empty: nowhere

    @property
    def works(self) -> bool:
        """Whether the kernel ran it until it was told to end."""
        return bool(self.ops) and self.is_held and not self.ended_by_itself

    @property
    def failed(self) -> bool:
        """Whether it gave up. What neither works nor failed ran out of time."""
        return self.ended_by_itself


Attempt: TypeAlias = Callable[[Confinement], Trial]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Of what, where and when."""

    version: str
    kernel: str
    machine: str
    date: str


class Findings(Fact, frozen=True, kw_only=True):
    """What a measurement adds to an entry of the catalog; the file `measured.json` of a recipe."""

    ops_name: OpsName
    stats: bool
    needs: Needs
    measured: Measured


class NotMeasured(Exception):
    """The scheduler does not even work with everything; the message says what it said."""


def measure(attempt: Attempt, about: Circumstances) -> Findings:
    """Find out what the scheduler needs, with as few attempts as that takes."""
    free = attempt(Confinement())
    if not free.works:
        raise NotMeasured(f"it does not work even without any restriction: {_told(free)}")
    without: dict[str, str] = {}
    host_pid, capabilities = _least_privileges(attempt, without)
    needs = Needs(
        host_pid=host_pid,
        boot_config=_is_needed(attempt, Confinement(boot_config=False), without),
        writable_run=_is_needed(attempt, Confinement(writable_run=False), without),
        capabilities=capabilities,
    )
    return Findings(
        ops_name=base_name(free.ops, about.version),
        stats=bool(free.stats_socket),
        needs=needs,
        measured=_record(free, about, without),
    )


def _least_privileges(
    attempt: Attempt, without: dict[str, str]
) -> tuple[bool | None, tuple[str, ...] | None]:
    """Whether it needs the host's process ids, and the first capabilities that suffice; None: not known."""
    least = _first_that_works(attempt, without, host_pids=False)
    if least is not None:
        return False, least
    host_pid = _is_needed(attempt, Confinement(host_pids=False), without)
    return host_pid, _first_that_works(attempt, without, host_pids=True) if host_pid else None


def _first_that_works(
    attempt: Attempt, without: dict[str, str], *, host_pids: bool
) -> tuple[str, ...] | None:
    for capabilities in CAPABILITIES:
        if _is_needed(attempt, Confinement(capabilities, host_pids=host_pids), without) is False:
            return capabilities
    return None


def _is_needed(attempt: Attempt, confinement: Confinement, without: dict[str, str]) -> bool | None:
    """Whether it needs more than that; None: the attempt came to no end. What it said is kept."""
    trial = attempt(confinement)
    if trial.works:
        return False
    without[f"with {confinement}"] = _told(trial)
    return True if trial.failed else None


def _told(trial: Trial) -> str:
    attached = "it was attached, then " if trial.ops else "it was not attached, and "
    ended = f"ended with {trial.exit_code}" if trial.failed else "had not ended in time"
    said = f": {trial.words}" if trial.words else ""
    return f"{attached}{ended}{said}"[:_LONGEST]


def _record(free: Trial, about: Circumstances, without: dict[str, str]) -> Measured:
    return Measured(
        version=about.version,
        kernel=about.kernel,
        machine=about.machine,
        date=about.date,
        ops=free.ops,
        attach_seconds=round(free.attach_s, 1),
        exit_code=free.exit_code,
        exit_words=free.words[:_LONGEST] or None,
        exit_reason=free.reason[:_LONGEST] or None,
        stats_socket=free.stats_socket or None,
        without=without,
    )


def base_name(ops: str, version: str) -> str:
    """What the kernel calls it, without version and target."""
    return ops.partition(f"_{version}_")[0]
