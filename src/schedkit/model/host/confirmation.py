"""Whether the kernel confirms a scheduler that was started, when that is given up, and what is said then."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from schedkit.model.host.actions import Refused
from schedkit.model.host.containers import Container
from schedkit.model.host.owners import Owner, OwnerKind, attribute, way_to_end
from schedkit.model.host.snapshot import Snapshot


class Course(StrEnum):
    """How a start goes on."""

    WAITING = "waiting"
    ATTACHED = "attached"  # the kernel confirms it, and the owner is our container
    ENDED = "ended"  # its program is gone
    TAKEN = "taken"  # somebody else's scheduler is attached
    LATE = "late"  # the time is over


def judge_start(snapshot: Snapshot, container: Container, *, is_alive: bool, is_over: bool) -> Course:
    """What one look says about a container that was started; `is_over`: the time it was given has passed."""
    owner = attribute(snapshot.proof, [container])
    if owner.kind is OwnerKind.MANAGED:
        return Course.ATTACHED
    if not is_alive:
        return Course.ENDED
    if owner.kind is OwnerKind.FOREIGN and is_over:
        return Course.TAKEN
    return Course.LATE if is_over else Course.WAITING


class FailureFacts(NamedTuple):
    """What is known about a scheduler that was not attached. Empty: nobody said anything."""

    ending: str = ""  # how its program ended
    kernel_words: str = ""
    last_words: str = ""  # of the program itself
    owner: Owner = Owner(OwnerKind.NONE)  # whose scheduler is attached instead


def explain_failure(name: str, course: Course, facts: FailureFacts, *, timeout_s: float) -> Refused:
    """What went wrong, by the kernel and by the scheduler itself, and what to do next."""
    how = facts.ending or "it is not known how"
    whats = {
        Course.ENDED: f"{name} was not attached: its program ended ({how})",
        Course.TAKEN: f"{name} was not attached: the kernel runs the scheduler of {facts.owner}",
    }
    late = f"the kernel did not confirm {name} within {timeout_s:g} s"
    reasons = (
        ("the kernel says: ", facts.kernel_words),
        ("the end of the scheduler's output: ", facts.last_words),
        ("", facts.owner.reason),
    )
    why = "; ".join(f"{says}{words}" for says, words in reasons if words)
    return Refused(whats.get(course, late), why, _remedy(course, facts.owner))


def _remedy(course: Course, owner: Owner) -> str:
    if owner.kind is OwnerKind.FOREIGN:
        return f"end that scheduler first: {way_to_end(owner)}"
    if course is Course.LATE:
        return "give it more time with --timeout, or try another version: `schedctl versions NAME`"
    return (
        "`schedctl doctor` checks this machine; if it finds nothing, try another version: "
        "`schedctl versions NAME`"
    )
