"""Why a node is whose it is, in words; to one tenant, another one's SchedExt has no name."""

from __future__ import annotations

from schedkit.model.claims.candidates import Candidate
from schedkit.model.claims.claim import Claim
from schedkit.model.claims.contests import Contests
from schedkit.model.claims.handover import Phase
from schedkit.model.claims.holds import Hold, HoldKind
from schedkit.model.claims.sites import Cause
from schedkit.model.claims.templates import Intent

_NOBODY_MAY = {
    Cause.UNWANTED: "no SchedExt wants the node, or may have it",
    Cause.INELIGIBLE: "the node's kernel cannot run sched_ext, by its own report",
    Cause.OUTSIDE: "the administrator's rules do not give the node to the namespace that selects it",
    Cause.SHARED_KERNEL: "another node reports the same boot: both have one kernel, which runs one scheduler",
}
_ON_ITS_WAY = {
    Phase.SETTLED: "it has the node",
    Phase.GRANTED: "it gets the node now",
    Phase.BEGUN: "the node is being taken from its old owner",
    Phase.QUEUED: "the node is next: as many are on their way as it may miss at a time",
    Phase.ENDING: "the pod of the node's old owner has not ended yet",
    Phase.STILL_ATTACHED: "StillAttached: the kernel still runs, or a process still holds, another scheduler",
    Phase.NOT_READY: "the node is not Ready: nothing is handed over there",
    Phase.NOT_ALLOWED: "rules or signatures keep it from running, so its old owner keeps the node for now",
    Phase.KEPT_OUT: "a taint would keep its pod away, so its old owner keeps the node for now",
}
_STOPPED = "it is stopped, and nobody else moves in: resume, suspend or delete it"
_TEMPLATES = {
    Intent.STAYS: "it stays as it is",
    Intent.OPENS: "no other open template may want its nodes: it needs no labels",
    Intent.IS_BORN_CLOSED: "others may want its nodes, or it is bound to some: it runs where labels say so",
    Intent.CLOSES: "it changes anyway, and may meet another open template, or leave its namespace's nodes",
    Intent.GOES: "it is taken out of the spec, and owns no node any more",
    Intent.ENDS: "somebody stopped, suspended or deleted it",
}
_WAITS = {
    Intent.OPENS: "it is made once no node that it would start on is another one's, or has another one's pod",
    Intent.CLOSES: "it changes once each of its nodes carries its label",
    Intent.GOES: "its DaemonSet is deleted once no node has its label or a pod of it",
}


def reason_of_claim(claim: Claim, contests: Contests, reader: str | None = None) -> str:
    """Why the node is whose it is; `reader` is the namespace of who reads it, None: who may read all."""
    if claim.owner:
        owner = contests.by_claim[claim.owner]
        state = _ON_ITS_WAY[claim.phase] if owner.stop is None else _STOPPED
        return f"the owner is {name_of(owner, reader)}: {state}"
    if claim.cause in _NOBODY_MAY:
        return _NOBODY_MAY[claim.cause]
    return "; ".join(_words_of_hold(each, reader) for each in claim.holds)


def name_of(candidate: Candidate, reader: str | None) -> str:
    """The candidate, as far as the reader may know of it."""
    if reader is not None and reader != candidate.namespace:
        return "a SchedExt of another namespace"
    pool = f", pool {candidate.pool}" if candidate.pool else ""
    return f"SchedExt {candidate.resource}{pool}"


def _words_of_hold(hold: Hold, reader: str | None) -> str:
    why = f": {hold.reason}" if hold.reason else ""
    match hold.kind:
        case HoldKind.STOP:
            who = f" by {hold.by}" if hold.by else ""
            return f"the node is stopped{who}{why}; it ends by a resume"
        case HoldKind.FOREIGN:
            return f"the node is held{why}; it ends two minutes after that scheduler"
        case HoldKind.QUARANTINE:
            is_seen = reader is None or hold.schedext.startswith(f"{reader}/")
            whom = f"SchedExt {hold.schedext}" if is_seen else "a SchedExt of another namespace"
            return f"{whom} is in quarantine on the node{why}; {_end_of(hold)}"


def _end_of(hold: Hold) -> str:
    if hold.level <= 1:
        return "it ends by itself after 15 minutes"
    return "it ends by a resume, or by another image or other arguments"


def reason_of_template(intent: Intent, candidate: Candidate) -> str:
    """Why a template opens, closes or goes."""
    return f"{name_of(candidate, candidate.namespace)}: {_TEMPLATES[intent]}"


def reason_of_wait(intent: Intent, candidate: Candidate) -> str:
    """What a template waits for."""
    return f"{name_of(candidate, candidate.namespace)}: {_WAITS[intent]}"
