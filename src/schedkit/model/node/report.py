"""From one look at a node's kernel to what is reported about it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from schedkit.model.api.schedextnode import (
    MAX_EXITS,
    MAX_FINDINGS,
    MAX_OPS,
    MAX_WORDS,
    Eligibility,
    NodeAgent,
    NodeExit,
    NodeFinding,
    NodeKernel,
    NodeOwner,
    NodeOwnerKind,
    SchedExtNodeStatus,
)
from schedkit.model.host.owners import Owner, OwnerKind, attribute
from schedkit.model.host.processes import place_of
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import State
from schedkit.model.node.exits import bounded
from schedkit.model.readiness.checks import Outcome
from schedkit.model.readiness.table import Finding

# what the kernel itself answers: its version and its config prove nothing, the rest is about our container
_DECISIVE = ("kernel.sched_ext", "kernel.btf")
_MAX_NAME = 256


class Identity(NamedTuple):
    """What does not change while an agent runs."""

    node_uid: str
    kernel: NodeKernel
    agent: NodeAgent


class Look(NamedTuple):
    """What an agent saw at one moment."""

    snapshot: Snapshot
    now: dt.datetime
    exits: tuple[NodeExit, ...] = ()
    exits_since: dt.datetime | None = None  # None: since boot
    exits_problem: str = ""


def report(
    identity: Identity, look: Look, findings: Sequence[Finding], before: SchedExtNodeStatus | None
) -> SchedExtNodeStatus:
    """The report that follows from a look; `before` is the last one, of which a date is kept."""
    kernel = look.snapshot.kernel
    computed = SchedExtNodeStatus(
        node_uid=identity.node_uid,
        kernel=identity.kernel,
        state=kernel.state.value,
        ops=bounded(kernel.ops or "", MAX_OPS),
        enable_seq=kernel.enable_seq,
        owner=owner(look.snapshot),
        eligible=eligibility(kernel.state, findings),
        findings=tuple(_finding(each) for each in findings if each.id.startswith("kernel."))[:MAX_FINDINGS],
        exits=look.exits[-MAX_EXITS:],
        exits_since=look.exits_since,
        exits_problem=bounded(look.exits_problem, MAX_WORDS),
        agent=identity.agent,
    )
    since = before.since if before and is_same_state(before, computed) else look.now
    return msgspec.structs.replace(computed, since=since, reported_at=look.now)


def is_same_state(one: SchedExtNodeStatus, other: SchedExtNodeStatus) -> bool:
    """Whether the kernel runs the same attachment of the same owner."""
    return _attachment(one) == _attachment(other)


def _attachment(status: SchedExtNodeStatus) -> tuple[object, ...]:
    return status.kernel.boot_id, status.state, status.ops, status.enable_seq, status.owner


def is_same_report(one: SchedExtNodeStatus | None, other: SchedExtNodeStatus | None) -> bool:
    """Whether nothing changed but the time of writing."""
    return _undated(one) == _undated(other)


def _undated(status: SchedExtNodeStatus | None) -> SchedExtNodeStatus | None:
    return msgspec.structs.replace(status, reported_at=None) if status else None


def owner(snapshot: Snapshot) -> NodeOwner:
    """Whose the attached scheduler is, as far as a node can prove it; a pod is named by its uid alone."""
    found = attribute(snapshot.proof, ())
    if found.kind is OwnerKind.NONE:
        return NodeOwner(kind=NodeOwnerKind.NONE)
    if found.kind in {OwnerKind.ORPHAN, OwnerKind.UNKNOWN}:
        kind = NodeOwnerKind.ORPHAN if found.kind is OwnerKind.ORPHAN else NodeOwnerKind.UNKNOWN
        return NodeOwner(kind=kind, reason=bounded(found.reason, MAX_WORDS))
    return _of_process(found, snapshot)


def _of_process(found: Owner, snapshot: Snapshot) -> NodeOwner:
    process = snapshot.proof.process
    program, driver = (process.program, place_of(process).driver) if process else ("", "")
    is_ours = driver == "containerd"  # the control group is named after schedctl's namespace there
    kind = (
        NodeOwnerKind.POD if found.pod_uid else NodeOwnerKind.SCHEDCTL if is_ours else NodeOwnerKind.FOREIGN
    )
    # whether schedctl started it, Podman alone knows
    container = f"a container of Podman, {found.container_id}" if driver == "podman" else found.container_id
    named = found.pod_uid or container or found.service or program or f"process {found.pid}"
    return NodeOwner(
        kind=kind,
        name=bounded(named, _MAX_NAME),
        pod_uid=found.pod_uid,
        container_id=bounded(found.container_id, 128),
        unit=bounded(found.service, _MAX_NAME),
        program=bounded(program, _MAX_NAME),
    )


def eligibility(state: State, findings: Iterable[Finding]) -> Eligibility:
    """Whether the kernel can run schedulers, by its own answers; whoever could not look knows nothing."""
    if state is State.UNKNOWN:
        return Eligibility.UNKNOWN  # without /sys every check fails
    outcomes = {each.id: each.status for each in findings if each.id in _DECISIVE}
    if Outcome.FAIL in outcomes.values():
        return Eligibility.NO
    is_sure = all(outcomes.get(each) is Outcome.PASS for each in _DECISIVE)
    return Eligibility.YES if is_sure else Eligibility.UNKNOWN


def _finding(finding: Finding) -> NodeFinding:
    """What is well needs no words: they would be of the time when the agent began."""
    words = "" if finding.status is Outcome.PASS else finding.detail
    return NodeFinding(id=finding.id, status=finding.status.value, detail=bounded(words, MAX_WORDS))
