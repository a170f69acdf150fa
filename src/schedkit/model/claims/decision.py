"""The owner of every node, and all that is to be written: one decision over everything that is seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from schedkit.model.claims.candidates import Candidate, Limits
from schedkit.model.claims.claim import Claim, Ground, claim_on
from schedkit.model.claims.contests import Contests
from schedkit.model.claims.handover import ARRIVED, POSTPONED, Phase, budget_of
from schedkit.model.claims.holds import HoldKind
from schedkit.model.claims.quarantines import is_active
from schedkit.model.claims.sites import NOBODY, Cause, Site
from schedkit.model.claims.templates import Intent, intents, opening_claims

_NOT_BEGUN = POSTPONED | {Phase.BEGUN}
_FEWEST_IN_A_STORM = 3
_STORM = 10  # one of so many nodes


class Sights(msgspec.Struct, frozen=True):
    """Everything that is seen at one moment, with the answers to all writes so far."""

    candidates: tuple[Candidate, ...]
    sites: tuple[Site, ...]
    now: datetime
    limits: Limits = Limits()


class Decision(msgspec.Struct, frozen=True):
    """What follows from it."""

    sights: Sights
    contests: Contests
    claims: tuple[Claim, ...]  # one for each site, in their order
    intents: dict[str, Intent]  # what is to become of each template, by claim
    storms: frozenset[str]  # SchedExts that the kernels of too many nodes threw out


def decide(sights: Sights) -> Decision:
    """Who owns what, and what is to be written for that."""
    wanted = intents(sights.candidates, sights.limits)
    contests = Contests(sights.candidates, sights.limits, opening_claims(sights.candidates, wanted))
    ground = Ground(contests, wanted, sights.now, _followers(sights.sites))
    claims = tuple([claim_on(site, ground) for site in sights.sites])
    limited = _within_budgets(claims, contests, sights.now)
    return Decision(sights, contests, limited, wanted, frozenset(_storms(limited, contests, sights.now)))


def _followers(sites: Iterable[Site]) -> frozenset[str]:
    """All but one of the sites that report one boot: they share a kernel, as in kind or k3d."""
    by_boot: defaultdict[str, list[Site]] = defaultdict(list)
    for site in sites:
        if site.report is not None and site.report.kernel.boot_id:
            by_boot[site.report.kernel.boot_id].append(site)
    alike = (each for each in by_boot.values() if len(each) > 1)
    return frozenset(name for each in alike for name in _all_but_the_first(each))


def _all_but_the_first(sites: list[Site]) -> list[str]:
    """The first is the one whose pod the kernel runs, or the one that is no follower so far."""
    ordered = sorted(
        sites,
        key=lambda each: (not each.attached, each.note.cause is Cause.SHARED_KERNEL, each.name),
    )
    return [each.name for each in ordered[1:]]


# Budgets


def _within_budgets(claims: tuple[Claim, ...], contests: Contests, now: datetime) -> tuple[Claim, ...]:
    """The claims, of which no more hand-overs begin than each winner may miss nodes at a time."""
    if not any(each.phase is Phase.BEGUN for each in claims):
        return claims
    left = _budgets(claims, contests, now)
    return tuple([_limited(each, left) for each in claims])


def _limited(claim: Claim, left: Counter[str]) -> Claim:
    if claim.phase is not Phase.BEGUN or claim.is_urgent:
        return claim
    left[claim.owner] -= 1
    if left[claim.owner] >= 0:
        return claim
    return msgspec.structs.replace(claim, phase=Phase.QUEUED, label=claim.site.label)


def _budgets(claims: Iterable[Claim], contests: Contests, now: datetime) -> Counter[str]:
    """How many more hand-overs each winner may begin."""
    owned = Counter(each.owner for each in claims if each.owner)
    flying = Counter(each.owner for each in claims if each.owner and is_in_flight(each, now))
    owners = ((claim, contests.by_claim[claim]) for claim in owned)
    return Counter({claim: budget_of(owner, owned[claim]) - flying[claim] for claim, owner in owners})


def is_in_flight(claim: Claim, now: datetime) -> bool:
    """Whether the site is on its way to its owner: until a pod of it is there."""
    if claim.phase in _NOT_BEGUN and claim.site.label != NOBODY:
        return False
    is_here = claim.site.has_pod_of(claim.owner) and claim.phase in ARRIVED
    return not is_here and claim.site.counts(now)


# Storms


def _storms(claims: Iterable[Claim], contests: Contests, now: datetime) -> Iterator[str]:
    """SchedExts in quarantine on more than a tenth of their nodes, and on three at least."""
    ill = Counter(each for claim in claims if claim.holds for each in _quarantined(claim, now))
    if not ill:
        return
    owned = Counter(contests.resources[each.owner] for each in claims if each.owner)
    stopped = {each.resource for each in contests.by_claim.values() if each.stop is not None}
    for resource, count in sorted(ill.items()):
        is_storm = count >= _FEWEST_IN_A_STORM and count * _STORM > owned[resource] + count
        if is_storm and resource not in stopped:
            yield resource


def _quarantined(claim: Claim, now: datetime) -> Iterator[str]:
    for hold in claim.holds:
        if hold.kind is HoldKind.QUARANTINE and is_active(hold, now):
            yield hold.schedext
