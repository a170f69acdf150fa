"""Whose one node is, and which label says so."""

from __future__ import annotations

from datetime import datetime

import msgspec

from schedkit.model.claims.candidates import Candidate, Template
from schedkit.model.claims.contests import Contest, Contests
from schedkit.model.claims.handover import POSTPONED, Phase, phase_of
from schedkit.model.claims.holds import Hold, HoldKind
from schedkit.model.claims.quarantines import barred, holds_now
from schedkit.model.claims.rank import incumbent_of
from schedkit.model.claims.sites import NOBODY, Cause, Site
from schedkit.model.claims.templates import Intent

_NO_ONE: frozenset[str] = frozenset()
_BORN_CLOSED = frozenset({Intent.IS_BORN_CLOSED, Intent.CLOSES})


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What is decided about one site."""

    site: Site
    owner: str  # the claim of its owner, also while it is on its way; empty: nobody's
    cause: Cause
    phase: Phase
    label: str | None  # after what is written now
    holds: tuple[Hold, ...] = ()  # as `label`
    noted: str = ""  # the SchedExt that has it, or had it before nobody might
    is_urgent: bool = False  # it is taken from who may not have it: no budget counts

    @property
    def is_written(self) -> bool:
        """Whether the Node differs from what it should be."""
        return self.label != self.site.label or self.holds != self.site.holds


class Ground(msgspec.Struct, frozen=True):
    """What decides about every site alike."""

    contests: Contests
    intents: dict[str, Intent]
    now: datetime
    # sites whose kernel another one has as well, which stands for both
    followers: frozenset[str] = frozenset()


def claim_on(site: Site, ground: Ground) -> Claim:
    """Whose the site is, and what to write for that."""
    contest = ground.contests.of(site)
    holds = holds_now(site, contest, ground.contests, ground.now)
    running = incumbent_of(site, ground.contests.resources, contest.holder_of_free)
    why = _nobody_may(site, holds, contest, ground)
    if why is not None:
        return _nobodys(site, why, NOBODY, holds, running)
    away = barred(holds, ground.now) if holds else _NO_ONE
    owner = _owner(contest, ground.contests, running, away)
    if owner is None:
        return _without_owner(site, contest, holds, running, away)
    return _owned(site, contest, owner, holds, ground)


def _nobody_may(site: Site, holds: tuple[Hold, ...], contest: Contest, ground: Ground) -> Cause | None:
    """Why no scheduler of ours may run there; None: one may."""
    kinds = {each.kind for each in holds} if holds else ()
    if HoldKind.STOP in kinds:
        return Cause.STOPPED
    if HoldKind.FOREIGN in kinds:
        return Cause.FOREIGN
    if not contest.keeping and not contest.opens:
        return None  # nobody wants it: nothing needs to be written
    if site.is_ineligible:
        return Cause.INELIGIBLE
    return Cause.SHARED_KERNEL if site.name in ground.followers else None


def _owner(contest: Contest, contests: Contests, running: str, away: frozenset[str]) -> Candidate | None:
    """The first in rank; who runs there now goes before others of its priority."""
    best = next((each for each in contest.ranked if _competes(each, running, away)), None)
    present = contest.keeping.get(running) if running and running not in away else None
    if present is None or present is best:
        return best
    if best is None or contests.priority_of(present) <= contests.priority_of(best):
        return present
    return best


def _competes(candidate: Candidate, running: str, away: frozenset[str]) -> bool:
    """Who would start nothing takes nothing from others; a stopped one still has what nobody else runs on."""
    if candidate.resource in away:
        return False
    if candidate.may_start or candidate.resource == running:
        return True
    return candidate.stop is not None and candidate.may_run and not running


def _nobodys(site: Site, cause: Cause, label: str | None, holds: tuple[Hold, ...], noted: str) -> Claim:
    phase = Phase.SETTLED if label == site.label else Phase.GRANTED
    return Claim(site, "", cause, phase, label, holds, noted if label else "")


def _without_owner(
    site: Site, contest: Contest, holds: tuple[Hold, ...], running: str, away: frozenset[str]
) -> Claim:
    if away:
        return _nobodys(site, Cause.QUARANTINED, NOBODY, holds, running)
    if contest.outsiders:
        return _nobodys(site, Cause.OUTSIDE, NOBODY, holds, running)
    return _nobodys(site, Cause.UNWANTED, None, holds, "")


def _owned(site: Site, contest: Contest, owner: Candidate, holds: tuple[Hold, ...], ground: Ground) -> Claim:
    target = owner.claim if _needs_label(owner, contest, ground.intents) else _free(site, owner)
    phase = phase_of(site, owner, target)
    is_urgent = bool(contest.outsiders) and any(each.claim in contest.outsiders for each in site.pods)
    if is_urgent and phase in POSTPONED and site.label != NOBODY:
        phase = Phase.BEGUN  # who may not have it leaves at once, whoever comes after it
    labels = {Phase.GRANTED: target, Phase.BEGUN: NOBODY}
    label = labels.get(phase, site.label)
    return Claim(site, owner.claim, Cause.OWNED, phase, label, holds, owner.resource, is_urgent)


def _needs_label(owner: Candidate, contest: Contest, intents: dict[str, Intent]) -> bool:
    """Whether only a label brings the site to its owner, or keeps another open one off it."""
    if owner.template is Template.CLOSED or intents[owner.claim] in _BORN_CLOSED:
        return True
    return bool(contest.opens - {owner.claim})


def _free(site: Site, owner: Candidate) -> str | None:
    """An open claimant's own label does no harm: removing it would be one more write."""
    return owner.claim if site.label == owner.claim else None
