"""Which records a node has by now: those that still count, and those that its report gives reason for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from schedkit.model.api.schedextnode import NodeExit
from schedkit.model.claims.candidates import Candidate
from schedkit.model.claims.contests import Contest, Contests
from schedkit.model.claims.ejects import count_lately, ejected_pods, sysrq_pod
from schedkit.model.claims.holds import Hold, HoldKind, bounded, hold_of
from schedkit.model.claims.sites import Site

FIRST_LASTS = timedelta(minutes=15)
MEMORY_LASTS = timedelta(days=1)
FOREIGN_LASTS = timedelta(minutes=2)
EJECTS = 3
_BY_SKED = "sked"


def holds_now(site: Site, contest: Contest, contests: Contests, now: datetime) -> tuple[Hold, ...]:
    """All records of the site; they are the same if nothing happened."""
    if not site.holds and not _has_news(site, now):
        return ()
    kept = tuple(each for each in site.holds if _lasts(each, site, contest, now))
    stopped = (*kept, *_new_stop(site, kept, contests, now), *_new_foreign(site, kept, contest, now))
    return _with_quarantines(site, stopped, contests, now)


def _has_news(site: Site, now: datetime) -> bool:
    """Whether a record may begin: of most nodes there is nothing to say."""
    return site.report is not None and (bool(site.report.exits) or site.has_foreign(now))


def is_active(hold: Hold, now: datetime) -> bool:
    """Whether a quarantine keeps its SchedExt off the site now; later it is a memory."""
    is_first = hold.level <= 1
    return not is_first or hold.time is None or now < hold.time + FIRST_LASTS


def barred(holds: tuple[Hold, ...], now: datetime) -> frozenset[str]:
    """The SchedExts that quarantines keep off the site."""
    found = (each for each in holds if each.kind is HoldKind.QUARANTINE)
    return frozenset(each.schedext for each in found if is_active(each, now))


# What ends a record


def _lasts(hold: Hold, site: Site, contest: Contest, now: datetime) -> bool:
    match hold.kind:
        case HoldKind.STOP:
            return True  # until a resume, which removes it
        case HoldKind.FOREIGN:
            return site.free_since is None or now < site.free_since + FOREIGN_LASTS
        case HoldKind.QUARANTINE:
            return _quarantine_lasts(hold, contest, now)


def _quarantine_lasts(hold: Hold, contest: Contest, now: datetime) -> bool:
    standing = contest.keeping.get(hold.schedext)
    if standing is None or standing.revision != hold.revision:
        return False  # it is deleted, has lost the site, or is another one by now
    if standing.stop is not None and standing.stop.revision:
        return False  # an eject storm stopped all of it: a resume begins anew
    is_second = hold.level > 1
    return is_second or hold.time is None or now < hold.time + MEMORY_LASTS


# What begins one


def _new_stop(site: Site, kept: tuple[Hold, ...], contests: Contests, now: datetime) -> Iterator[Hold]:
    pod = sysrq_pod(site)
    if pod is None or hold_of(kept, HoldKind.STOP):
        return
    whose = contests.resources.get(pod.claim, "")
    yield Hold(HoldKind.STOP, "somebody stopped it with SysRq-S", now, "the node's console", whose)


def _new_foreign(site: Site, kept: tuple[Hold, ...], contest: Contest, now: datetime) -> Iterator[Hold]:
    if not site.has_foreign(now) or not contest.keeping or hold_of(kept, HoldKind.FOREIGN):
        return
    yield Hold(HoldKind.FOREIGN, "the kernel runs a scheduler that sked did not start", now, _BY_SKED)


def _with_quarantines(
    site: Site, holds: tuple[Hold, ...], contests: Contests, now: datetime
) -> tuple[Hold, ...]:
    for pod, ejects in ejected_pods(site):
        candidate = contests.by_claim.get(pod.claim)
        before = _quarantine_of(holds, candidate.resource) if candidate else None
        if candidate is not None and _is_due(before, ejects, now):
            level = 1 if before is None else 2
            new = _quarantine(candidate, level, ejects[-1].reason, now)
            holds = (*(each for each in holds if each is not before), new)
    return holds


def _is_due(before: Hold | None, ejects: list[NodeExit], now: datetime) -> bool:
    """Three ejects, or one that follows a quarantine; while that lasts, the pod is about to end."""
    return count_lately(ejects) >= EJECTS if before is None else not is_active(before, now)


def _quarantine(candidate: Candidate, level: int, why: str, now: datetime) -> Hold:
    reason = bounded(why) or "no reason is given"
    whom = candidate.resource, candidate.revision
    return Hold(HoldKind.QUARANTINE, reason, now, _BY_SKED, *whom, level)


def _quarantine_of(holds: tuple[Hold, ...], resource: str) -> Hold | None:
    of_it = (each for each in holds if each.kind is HoldKind.QUARANTINE and each.schedext == resource)
    return next(of_it, None)
