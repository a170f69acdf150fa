"""What one node's kernel runs, for whom, and what is wrong with it: in words, from objects as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from schedkit.model.api.conditions import legible
from schedkit.model.api.nodes import Node
from schedkit.model.api.pods import Pod
from schedkit.model.api.schedextnode import NodeExit, NodeOwner, NodeOwnerKind, SchedExtNodeStatus


class Occupant(msgspec.Struct, frozen=True, rename="camel"):
    """A SchedExt's pod on the node."""

    schedext: str
    pod: str
    owns_kernel: bool


class Evidence(NamedTuple):
    """What was read about a node; what the caller may not read is unseen, which is not the same as absent."""

    node: Node | None = None
    report: SchedExtNodeStatus | None = None
    pods: tuple[Pod, ...] = ()
    unseen: frozenset[str] = frozenset()  # "node", "report", "pods"


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """One node."""

    node: str
    kernel: str  # what it runs, in a sentence
    owner: str
    eligible: str
    occupants: tuple[Occupant, ...] = ()
    exits: tuple[str, ...] = ()  # the newest first
    remarks: tuple[str, ...] = ()
    missing_rights: tuple[str, ...] = ()


def explain(name: str, seen: Evidence, missing_rights: tuple[str, ...] = ()) -> Explanation:
    """From the Node, its agent's report and the pods of SchedExts on it."""
    report = seen.report
    occupants = tuple(_occupants(report, seen.pods))
    return Explanation(
        node=name,
        kernel=_kernel(seen),
        owner=_owner(seen, occupants),
        eligible=_eligible(report),
        occupants=occupants,
        exits=tuple(_exit(each) for each in reversed(report.exits)) if report else (),
        remarks=tuple(_remarks(seen)),
        missing_rights=missing_rights,
    )


def _kernel(seen: Evidence) -> str:
    report = seen.report
    if report is None:
        is_hidden = "report" in seen.unseen
        return (
            "the node's report cannot be seen" if is_hidden else "no agent has reported what the kernel runs"
        )
    since = f" since {report.since.isoformat()}" if report.since else ""
    if report.state == "enabled":
        return f"the kernel runs {legible(report.ops) or 'a scheduler without a name'}{since}"
    if report.state == "disabled":
        return f"the kernel runs its own scheduler{since}"
    return f"the kernel's state is {legible(report.state) or 'not known'}{since}"


def _owner(seen: Evidence, occupants: tuple[Occupant, ...]) -> str:
    report = seen.report
    if report is None or report.state != "enabled":
        return ""
    ours = next((each for each in occupants if each.owns_kernel), None)
    if ours is not None:
        return f"pod {ours.pod} of SchedExt {ours.schedext}"
    if report.owner.kind is NodeOwnerKind.POD and "pods" in seen.unseen:
        return legible(f"pod {report.owner.pod_uid}; whose pod it is cannot be seen")
    return _stranger(report.owner)


def _stranger(owner: NodeOwner) -> str:
    program = owner.unit or owner.program or owner.name or "a program without a name"
    words = {
        NodeOwnerKind.POD: f"a pod that no SchedExt owns, {owner.pod_uid}",
        NodeOwnerKind.SCHEDCTL: f"the container {owner.container_id[:12]} of schedctl",
        NodeOwnerKind.FOREIGN: f"{program}, started on the node itself",
        NodeOwnerKind.ORPHAN: "no process: the kernel keeps it by itself",
        NodeOwnerKind.NONE: "nobody",
    }
    return legible(words.get(owner.kind, f"not proved: {owner.reason or 'no reason is given'}"))


def _eligible(report: SchedExtNodeStatus | None) -> str:
    if report is None:
        return "not known"
    failed = [f"{each.id}: {each.detail}" for each in report.findings if each.status == "fail"]
    why = f" ({legible('; '.join(failed))})" if failed else ""
    return f"{report.eligible.value.lower()}{why}"


def _occupants(report: SchedExtNodeStatus | None, pods: Iterable[Pod]) -> Iterator[Occupant]:
    is_on = report is not None and report.state == "enabled"
    for pod in pods:
        owner, meta = pod.metadata.controller, pod.metadata
        if owner is not None:
            owns = is_on and report is not None and report.owner.pod_uid == meta.uid
            schedext = legible(f"{meta.namespace}/{owner.name}")
            yield Occupant(schedext, legible(f"{meta.namespace}/{meta.name}"), owns)


def _exit(ended: NodeExit) -> str:
    when = ended.time.isoformat() if ended.time else "at a time that is not known"
    often = f", {ended.count} times" if ended.count > 1 else ""
    said = f": {ended.message}" if ended.message else ""
    return legible(
        f"{when}{often}: {ended.ops} ended, {ended.reason or 'no reason is given'} ({ended.kind}){said}"
    )


def _remarks(seen: Evidence) -> Iterator[str]:
    node, report = seen.node, seen.report
    if node is None:
        if "node" not in seen.unseen:
            yield "the node is not in the cluster"
        return
    if not node.is_ready:
        yield "the node is not Ready: what is known may be old"
    if report is not None:
        yield from _doubts(node, report)


def _doubts(node: Node, report: SchedExtNodeStatus) -> Iterator[str]:
    boot = node.status.node_info.boot_id
    if report.node_uid != node.metadata.uid:
        yield "the report is about an earlier Node of that name"
    elif boot and report.kernel.boot_id != boot:
        yield "the report is about an earlier boot of the node"
    if report.exits_problem:
        yield f"the kernel's log cannot be read: {legible(report.exits_problem)}"
