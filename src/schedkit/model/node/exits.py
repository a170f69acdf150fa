"""The ends of schedulers, from the kernel's log to a report."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import msgspec

from schedkit.model.api.conditions import legible
from schedkit.model.api.schedextnode import (
    MAX_EXITS,
    MAX_OPS,
    MAX_WORDS,
    NodeExit,
    NodeOwner,
    NodeOwnerKind,
    SchedExtNodeStatus,
)
from schedkit.model.kernel.log import Exit, ExitKind
from schedkit.model.kernel.sched_ext import KernelState, State

_TASK = re.compile(r"^(?P<task>\S.{0,47}\[\d{1,10}\]) failed to run for ")
_MAX_TOLD = 512  # more than a log holds
_NOT_SEEN = NodeOwner()
_ATTACHED = frozenset({State.ENABLED, State.DISABLING})  # and counted, but not told to have ended


def with_exit(
    exits: tuple[NodeExit, ...], ended: Exit, at: dt.datetime, whose: NodeOwner = _NOT_SEEN
) -> tuple[NodeExit, ...]:
    """The list with one more end: one of the same cause as the last is counted there, with both times."""
    entry = NodeExit(
        ops=bounded(ended.ops, MAX_OPS),
        kind=int(ended.kind),
        reason=bounded(ended.reason, 128),
        message=bounded(ended.message, MAX_WORDS),
        task=task_of(ended),
        owner=whose.kind.value if whose.kind is not NodeOwnerKind.UNKNOWN else "",
        pod_uid=whose.pod_uid,
        first_time=at,
        time=at,
        log_time=ended.time_us,
    )
    if not exits or _cause(exits[-1]) != _cause(entry):
        return (*exits, entry)[-MAX_EXITS:]
    last = exits[-1]
    merged = msgspec.structs.replace(entry, count=last.count + 1, first_time=last.first_time)
    return (*exits[:-1], merged)


def _cause(ended: NodeExit) -> tuple[object, ...]:
    return ended.ops, ended.kind, ended.owner, ended.pod_uid


def task_of(ended: Exit) -> str:
    """The task that did not get to run; empty: the kernel named none."""
    found = _TASK.match(legible(ended.message)) if ended.kind is ExitKind.ERROR_STALL else None
    return bounded(found["task"], 64) if found else ""


def ended_at_least(before: SchedExtNodeStatus, kernel: KernelState) -> int | None:
    """How many attachments have ended since that report, by the kernel's count; None: it is not known.

    Ends that the log has besides are of schedulers that could not be attached.
    """
    if before.enable_seq is None or kernel.enable_seq is None:
        return None
    was_attached, is_attached = before.state in _ATTACHED, kernel.state in _ATTACHED
    return max(0, kernel.enable_seq - before.enable_seq + was_attached - is_attached)


def untold(exits: Sequence[Exit], told: Sequence[NodeExit], *, at_least: int | None = None) -> Sequence[Exit]:
    """The ends in the log that an earlier agent of this boot has not reported: so many, or more."""
    if told and told[-1].log_time and all(each.time_us for each in exits):
        return [each for each in exits if each.time_us > told[-1].log_time]
    logged, every = [(each.ops, int(each.kind)) for each in exits], _each(told)
    if at_least is None or len(told) < MAX_EXITS:
        return exits[_overlap(logged, every) :]
    # the report may have forgotten ends that the log has: where all are alike, only the count tells which
    old = logged[: max(0, len(logged) - at_least)]
    is_miscounted = bool(old) and not _place(old, every)  # a report was written while the kernel counted
    return exits[_overlap(logged, every) if is_miscounted else _place(old, every) :]


def _each(told: Sequence[NodeExit]) -> list[tuple[str, int]]:
    """One for each end, of those that were counted together as well."""
    every = ((each.ops, each.kind) for each in told for _ in range(min(each.count, _MAX_TOLD)))
    return list(every)[-_MAX_TOLD:]


def _overlap(logged: Sequence[tuple[str, int]], told: Sequence[tuple[str, int]]) -> int:
    """How many of the log's ends were told: the log has forgotten its beginning, or the report has."""
    for place in range(min(len(logged), len(told)), 0, -1):
        if list(logged[:place]) == list(told[-place:]):
            return place
    for place in range(len(logged), len(told), -1):
        if told and list(logged[place - len(told) : place]) == list(told):
            return place
    return 0


def _place(logged: Sequence[tuple[str, int]], told: Sequence[tuple[str, int]]) -> int:
    """After how many of the log's ends the last that was told stands, as late as possible."""
    for place in range(len(logged), 0, -1):
        same = min(place, len(told))
        if list(logged[place - same : place]) == list(told[-same:]):
            return place
    return 0


def bounded(words: str, limit: int) -> str:
    """What a node says, so that it can be shown: on one line, without control characters, not too long."""
    return legible(words)[:limit]
