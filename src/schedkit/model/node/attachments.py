"""Whose the schedulers were that ended: what was proved while each of them was attached.

A kernel runs one scheduler at a time, so that ends come in the order of the attachments. An end of something
that was never seen attached belongs to nobody known.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from schedkit.model.api.schedextnode import NodeOwner, SchedExtNodeStatus
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import State
from schedkit.model.node.report import owner

_MOST = 8  # that are seen before the log says how the first of them ended


class Attachment(NamedTuple):
    """A scheduler that was seen attached, and has not been seen to end."""

    ops: str
    enable_seq: int | None
    owner: NodeOwner


Attachments: TypeAlias = tuple[Attachment, ...]  # the oldest first


def reported_attachment(status: SchedExtNodeStatus) -> Attachments:
    """What an earlier agent saw attached."""
    if status.state != State.ENABLED:
        return ()
    return (Attachment(status.ops, status.enable_seq, status.owner),)


def with_attachment(seen: Attachments, snapshot: Snapshot) -> Attachments:
    """With what the kernel runs by that snapshot; of the same attachment the last word counts."""
    kernel = snapshot.kernel
    if kernel.state is not State.ENABLED:
        return seen
    latest = Attachment(kernel.ops or "", kernel.enable_seq, owner(snapshot))
    is_known = bool(seen) and seen[-1][:2] == latest[:2]
    return (*(seen[:-1] if is_known else seen), latest)[-_MOST:]


def ended_owner(seen: Attachments, ops: str) -> tuple[NodeOwner, Attachments]:
    """Whose scheduler of that name ended, and what has not ended yet."""
    for place, each in enumerate(seen):
        if each.ops == ops:
            return each.owner, seen[place + 1 :]
    return NodeOwner(), seen
