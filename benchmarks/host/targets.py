"""What `schedctl` promises to cost, as ratios to what was measured beside it in the same run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from benchmarks.host import courses, startups
from benchmarks.host.courses import PODMAN, SCHEDCTL, Attachment, Courses, Gap
from benchmarks.outcomes import Outcome

Course = TypeVar("Course", Attachment, Gap)


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run measured."""

    startups_s: Mapping[str, Sequence[float]]  # CPU, by command
    courses: Courses = field(default_factory=courses.Courses)


def compare(results: Results) -> tuple[Outcome, ...]:
    """Every target about which something was measured, with what was reached."""
    return (*_startups(results.startups_s), *_attachments(results.courses), *_gaps(results.courses))


def _startups(times_s: Mapping[str, Sequence[float]]) -> tuple[Outcome, ...]:
    def compared(what: str, limit: float) -> Outcome:
        ours, bare = (1000 * median(times_s[each]) for each in (what, startups.INTERPRETER))
        evidence = f"{ours:.1f} ms, {startups.INTERPRETER} {bare:.1f} ms"
        return Outcome(f"CPU of {what}", ours / bare, "at most", limit, "x", evidence)

    limits = {startups.HELP: 5, startups.STATUS: 5, startups.PODMAN: 7}
    return tuple(compared(what, limit) for what, limit in limits.items() if what in times_s)


def _attachments(found: Courses) -> tuple[Outcome, ...]:
    if not found.attachments:
        return ()
    ours, theirs = (_median(found.attachments, who, _attaching) for who in (SCHEDCTL, PODMAN))
    evidence = f"{ours:.2f} s, podman run {theirs:.2f} s"
    what = "from the first call to attached, to podman run"
    return (Outcome(what, ours / theirs, "at most", 1.15, "x", evidence),)


def _gaps(found: Courses) -> tuple[Outcome, ...]:
    if not found.gaps:
        return ()
    ours, theirs = (_median(found.gaps, who, _gap) for who in (SCHEDCTL, PODMAN))
    evidence = f"{ours:.2f} s, podman {theirs:.2f} s"
    what = "gap of a switch, to podman stop and start"
    return (Outcome(what, ours / theirs, "at most", 1, "x", evidence),)


def _attaching(one: Attachment) -> float:
    return one.attaching_s


def _gap(one: Gap) -> float:
    return one.gap_s


def _median(rounds: Sequence[Course], who: str, figure: Callable[[Course], float]) -> float:
    return median(figure(each) for each in rounds if each.who == who)
