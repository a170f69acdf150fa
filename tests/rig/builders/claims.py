"""Clusters as the claims see them, and what becomes of them when what was decided is written."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never

import msgspec

from schedkit.model.api.reports import ReportKernel, ReportOwner, ReportStatus
from schedkit.model.api.schedextnode import Eligibility, NodeExit, NodeOwnerKind
from schedkit.model.claims.candidates import Candidate, Limits, StopNote, Template, claim_of
from schedkit.model.claims.decision import Decision, Sights, decide
from schedkit.model.claims.sites import Note, Site, SitePod
from schedkit.model.claims.worklist import (
    CloseTemplate,
    DeleteDaemonSet,
    MakeDaemonSet,
    ResumeSchedExt,
    StopSchedExt,
    Work,
    WriteNode,
    worklist,
)

NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
LAST_PLACE = 16


def candidate(
    name: str, pool: str = "", *, age_s: int = 0, namespace: str = "default", **given: Any
) -> Candidate:
    """One that is as old as that, and has no DaemonSet yet."""
    place = given.pop("place", 0 if pool else LAST_PLACE)
    made = NOW - timedelta(days=1, seconds=age_s)
    claim = claim_of(namespace, name, pool)
    return Candidate(claim, namespace, name, pool, place, created=made, revision=f"{name}{pool}-1", **given)


def opened(name: str, **given: Any) -> Candidate:
    return candidate(name, template=Template.OPEN, **given)


def closed(name: str, pool: str = "", **given: Any) -> Candidate:
    return candidate(name, pool, template=Template.CLOSED, **given)


def pod_of(whose: Candidate, site: str = "n1", **given: Any) -> SitePod:
    return SitePod(whose.claim, f"{whose.claim}-on-{site}", **given)


def site(name: str = "n1", *pods: Candidate | SitePod, **given: Any) -> Site:
    there = tuple(pod_of(each, name) if isinstance(each, Candidate) else each for each in pods)
    return Site(name, f"uid-{name}", pods=there, **given)


def report(
    state: str = "disabled",
    owner: NodeOwnerKind = NodeOwnerKind.NONE,
    pod: SitePod | None = None,
    boot: str = "",
    **given: Any,
) -> ReportStatus:
    """What the node's agent says."""
    whose = ReportOwner(kind=NodeOwnerKind.POD if pod else owner, pod_uid=pod.uid if pod else "")
    given = {"eligible": Eligibility.YES, **given}
    return ReportStatus(state=state, owner=whose, kernel=ReportKernel(boot_id=boot), **given)


def ended(pod: SitePod, kind: int = 1026, *, minutes_ago: float = 1, count: int = 1) -> NodeExit:
    at = NOW - timedelta(minutes=minutes_ago)
    words = "runnable task stall"
    return NodeExit("scx", kind, words, owner="Pod", pod_uid=pod.uid, time=at, first_time=at, count=count)


def sights(
    candidates: Iterable[Candidate], sites: Iterable[Site], now: datetime = NOW, **limits: Any
) -> Sights:
    return Sights(tuple(candidates), tuple(sites), now, Limits(**limits))


def owners(decision: Decision) -> dict[str, str]:
    """The name of each site's owner."""
    names = decision.contests.by_claim
    found = ((each.site.name, names.get(each.owner)) for each in decision.claims)
    return {site: f"{owner.name}/{owner.pool}".rstrip("/") if owner else "" for site, owner in found}


def work(seen: Sights) -> tuple[Work, ...]:
    return worklist(decide(seen))


def labels(found: Iterable[Work]) -> dict[str, str | None]:
    """The labels that are written, by node."""
    return {each.name: each.label for each in found if isinstance(each, WriteNode)}


def after(seen: Sights, found: Iterable[Work] | None = None) -> Sights:
    """The same moment, when all of it is written and nobody else did anything."""
    for each in work(seen) if found is None else found:
        seen = _written(seen, each)
    return seen


def _written(seen: Sights, each: Work) -> Sights:
    match each:
        case WriteNode():
            sites = tuple(_labelled(one, each) if one.name == each.name else one for one in seen.sites)
            return msgspec.structs.replace(seen, sites=sites)
        case MakeDaemonSet():
            return _changed(seen, {each.claim}, template=each.template)
        case CloseTemplate():
            return _changed(seen, {each.claim}, template=Template.CLOSED, asks_for_another_template=False)
        case DeleteDaemonSet():
            return _changed(seen, {each.claim}, template=Template.ABSENT)
        case StopSchedExt():
            return _changed(seen, _claims(seen, each.resource), stop=each.stop)
        case ResumeSchedExt():
            return _changed(seen, _claims(seen, each.resource), stop=None)
        case _:
            assert_never(each)


def _labelled(one: Site, written: WriteNode) -> Site:
    assert one.label == written.was
    note = written.note if written.label is not None else Note()
    return msgspec.structs.replace(one, label=written.label, holds=written.holds, note=note)


def _claims(seen: Sights, resource: str) -> set[str]:
    return {each.claim for each in seen.candidates if each.resource == resource}


def _changed(seen: Sights, claims: set[str], **fields: Template | StopNote | bool | None) -> Sights:
    candidates = tuple(
        msgspec.structs.replace(each, **fields) if each.claim in claims else each for each in seen.candidates
    )
    return msgspec.structs.replace(seen, candidates=candidates)
