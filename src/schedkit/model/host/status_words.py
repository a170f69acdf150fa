"""One machine: what its kernel runs, whose that is, and what follows. `RULES` is the whole specification.

Status strings and exit codes are an interface; words may be improved at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from schedkit.model.host.containers import Container
from schedkit.model.host.owners import EJECT, Owner, OwnerKind, way_to_end
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import State

PATIENCE_S = 5.0  # for a kernel that is attaching or detaching


class Containers(StrEnum):
    """How many of our containers run."""

    NONE = "none"
    ONE = "one"
    SEVERAL = "several"
    UNKNOWN = "unknown"  # no container runtime answered


class Status(StrEnum):
    """The answer of `schedctl status`."""

    IDLE = "idle"
    RUNNING = "running"
    ORPHANED = "orphaned-kernel-state"
    DETACHED = "managed-detached"
    MISMATCH = "managed-mismatch"
    MULTIPLE = "multiple-managed"

    @property
    def exit_code(self) -> int:
        """0 when kernel and containers agree, 2 for a discrepancy."""
        return 0 if self in {Status.IDLE, Status.RUNNING} else 2


class Rule(NamedTuple):
    """One row of the table. An empty condition holds for all."""

    status: Status
    words: str
    way_out: str
    states: frozenset[State] = frozenset()
    owners: frozenset[OwnerKind] = frozenset()
    containers: frozenset[Containers] = frozenset()

    def holds_for(self, state: State, owner: OwnerKind, containers: Containers) -> bool:
        """Whether the row is about that combination."""
        return (
            (not self.states or state in self.states)
            and (not self.owners or owner in self.owners)
            and (not self.containers or containers in self.containers)
        )


_ENABLED, _DISABLED, _ABSENT = (frozenset({state}) for state in (State.ENABLED, State.DISABLED, State.ABSENT))
_MOVING, _UNREADABLE = frozenset({State.ENABLING, State.DISABLING}), frozenset({State.UNKNOWN})
_MANAGED, _STRAY, _FOREIGN, _ORPHAN = (
    frozenset({kind}) for kind in (OwnerKind.MANAGED, OwnerKind.STRAY, OwnerKind.FOREIGN, OwnerKind.ORPHAN)
)
_ONE, _SEVERAL, _UNANSWERED = (
    frozenset({count}) for count in (Containers.ONE, Containers.SEVERAL, Containers.UNKNOWN)
)

# The first row that holds decides. {ops}, {owner}, {ending}, {ours} and {reason} are filled in.
RULES: tuple[Rule, ...] = (
    Rule(
        Status.MULTIPLE,
        "several of schedkit's containers run ({ours}), and the kernel runs the scheduler of {owner}",
        "stop the others: `schedctl stop ID`",
        states=_ENABLED,
        owners=_MANAGED,
        containers=_SEVERAL,
    ),
    Rule(
        Status.MULTIPLE,
        "several of schedkit's containers run ({ours}), but the kernel runs {ops}; "
        "{owner} started it and has ended, but left a process behind",
        "`schedctl reset` ends them all; then use `schedctl run` again",
        states=_ENABLED,
        owners=_STRAY,
        containers=_SEVERAL,
    ),
    Rule(
        Status.MULTIPLE,
        "several of schedkit's containers run ({ours}), "
        "and it is not proved that the kernel runs the scheduler of any of them",
        "stop all but one container: `schedctl stop ID`; then run `schedctl status` again",
        containers=_SEVERAL,
    ),
    Rule(
        Status.RUNNING,
        "the kernel runs {ops} from {owner}",
        "nothing to do",
        states=_ENABLED,
        owners=_MANAGED,
        containers=_ONE,
    ),
    Rule(
        Status.MISMATCH,
        "{ours} runs, but the kernel runs {ops}; {owner} started it and has ended, but left a process behind",
        "`schedctl reset` ends both; then use `schedctl run` again",
        states=_ENABLED,
        owners=_STRAY,
        containers=_ONE,
    ),
    Rule(
        Status.ORPHANED,
        "the kernel runs {ops}; {owner} started it and has ended, but left a process behind",
        "end that process: `schedctl reset`",
        states=_ENABLED,
        owners=_STRAY,
    ),
    Rule(
        Status.MISMATCH,
        "{ours} runs, but the kernel runs {ops}, which was started by {owner}",
        "end the other scheduler ({ending}), or stop {ours} (`schedctl stop`)",
        states=_ENABLED,
        owners=_FOREIGN,
        containers=_ONE,
    ),
    Rule(
        Status.ORPHANED,
        "the kernel runs {ops}, which schedctl did not start: it belongs to {owner}",
        "leave it running, or end it: {ending}",
        states=_ENABLED,
        owners=_FOREIGN,
    ),
    Rule(
        Status.MISMATCH,
        "{ours} runs, but the kernel runs {ops}, which belongs to no process: {reason}",
        "`schedctl reset` ends both; then use `schedctl run` again",
        states=_ENABLED,
        owners=_ORPHAN,
        containers=_ONE,
    ),
    Rule(
        Status.ORPHANED,
        "the kernel runs {ops}, which belongs to no process: {reason}",
        EJECT,
        states=_ENABLED,
        owners=_ORPHAN,
    ),
    Rule(
        Status.MISMATCH,
        "{ours} runs, and the kernel runs {ops}, but it is not proved that they belong together: {reason}",
        "start the container runtime if it does not run, then run `schedctl status` as root, on the host",
        states=_ENABLED,
        containers=_ONE,
    ),
    Rule(
        Status.ORPHANED,
        "the kernel runs {ops}, but its owner is not known: {reason}",
        "start the container runtime if it does not run, then run `schedctl status` as root, on the host",
        states=_ENABLED,
    ),
    Rule(
        Status.DETACHED,
        "{ours} runs, but this kernel has no sched_ext",
        "stop it: `schedctl stop`; `schedctl doctor` says what the kernel lacks",
        states=_ABSENT,
        containers=_ONE,
    ),
    Rule(
        Status.IDLE,
        "this kernel has no sched_ext: it runs its own scheduler",
        "`schedctl doctor` says what the kernel lacks",
        states=_ABSENT,
    ),
    Rule(
        Status.DETACHED,
        "{ours} runs, but the kernel runs its own scheduler: "
        "the container's scheduler is not attached yet, or was ejected",
        "`schedctl logs` and `dmesg` say why; then use `schedctl stop`, and `schedctl run` again",
        states=_DISABLED,
        containers=_ONE,
    ),
    Rule(
        Status.IDLE,
        "the kernel runs its own scheduler; no container runtime answers, "
        "so one of schedkit's containers may still run, with its scheduler not attached",
        "`schedctl doctor` says why no runtime answers",
        states=_DISABLED,
        containers=_UNANSWERED,
    ),
    Rule(
        Status.IDLE,
        "the kernel runs its own scheduler",
        "nothing to do; `schedctl run NAME` starts another scheduler",
        states=_DISABLED,
    ),
    Rule(
        Status.DETACHED,
        "{ours} runs, but the kernel is still changing schedulers: {reason}",
        "try again; if nothing changes, use `schedctl stop`",
        states=_MOVING,
        containers=_ONE,
    ),
    Rule(
        Status.ORPHANED,
        "the kernel is still changing schedulers, and none of schedkit's containers is known to run: "
        "{reason}",
        "try again; if nothing changes, use `schedctl reset --force`",
        states=_MOVING,
    ),
    Rule(
        Status.DETACHED,
        "{ours} runs, but it is not known what the kernel runs: {reason}",
        "run `schedctl status` as root, on the host",
        states=_UNREADABLE,
        containers=_ONE,
    ),
    Rule(
        Status.ORPHANED,
        "it is not known what the kernel runs: {reason}",
        "run `schedctl status` as root, on the host",
        states=_UNREADABLE,
    ),
)


class HostStatus(NamedTuple):
    """What `schedctl status` reports."""

    status: Status
    words: str
    way_out: str
    owner: Owner

    @property
    def exit_code(self) -> int:
        """0, or 2 for a discrepancy."""
        return self.status.exit_code


def judge(snapshot: Snapshot) -> HostStatus:
    """The table's answer to one look at a machine."""
    owner, kernel, ours = snapshot.owner, snapshot.kernel, snapshot.running
    kind = OwnerKind.STRAY if owner.container_id in {each.id for each in snapshot.ended} else owner.kind
    rule = find_rule(kernel.state, kind, count(None if snapshot.containers is None else ours))
    values = {
        "ops": snapshot.ops,
        "owner": str(owner),
        "ending": way_to_end(owner),
        "ours": ", ".join(map(str, ours)),
        "reason": owner.reason or kernel.problem or f"its state is `{kernel.state}`",
    }
    return HostStatus(rule.status, rule.words.format(**values), rule.way_out.format(**values), owner)


def find_rule(state: State, owner: OwnerKind, containers: Containers) -> Rule:
    """The first row about that combination; every combination has one."""
    return next(rule for rule in RULES if rule.holds_for(state, owner, containers))


def count(ours: Sequence[Container] | None) -> Containers:
    """How many of our containers run; None: no runtime could be asked."""
    if ours is None:
        return Containers.UNKNOWN
    return (Containers.NONE, Containers.ONE, Containers.SEVERAL)[min(len(ours), 2)]


def should_wait(snapshot: Snapshot, *, waited_s: float) -> bool:
    """Whether to look again before judging: the kernel is on its way from one state to another."""
    return snapshot.kernel.is_moving and waited_s < PATIENCE_S
