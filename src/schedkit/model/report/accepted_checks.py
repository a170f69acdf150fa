"""Whether a SchedExt is Accepted: whether its spec can be turned into a DaemonSet.

Of a table of checks the first that speaks decides, here and for every other condition: their order is the
specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedkit.model.api.conditions import Finding, Reason, no, unknown, yes
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import Decision
from schedkit.model.report.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Situation:
    """What the answers follow from."""

    observation: Observation
    decision: Decision
    fleet: Fleet

    @property
    def size(self) -> str:
        """How many nodes there are, in words."""
        count = len(self.fleet.nodes)
        return f"{count} node" if count == 1 else f"{count} nodes"


Check = Callable[[Situation], Finding | None]
_MAX_WORDS_SHOWN, _LONGEST_WORD = 3, 63


def first(checks: tuple[Check, ...], situation: Situation) -> Finding:
    """The finding of the first check that speaks; the last of a table always does."""
    return next(finding for check in checks if (finding := check(situation)) is not None)


def newer_manager_is_needed(situation: Situation) -> Finding | None:
    """Whoever does not know what was meant undoes nothing."""
    needs = situation.decision.unknown_needs
    if not needs:
        return None
    words = f"a newer sked wrote this SchedExt or its DaemonSet, and this one does not know {_listed(needs)}"
    return no(Reason.NEWER_MANAGER_NEEDED, f"{words}: nothing is changed; upgrade the operator")


def _listed(words: tuple[str, ...]) -> str:
    """The first of them: users may write there what they want."""
    shown = ", ".join(each[:_LONGEST_WORD] for each in words[:_MAX_WORDS_SHOWN])
    rest = len(words) - _MAX_WORDS_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def old_one_is_in_the_way(situation: Situation) -> Finding | None:
    """A SchedExt that was deleted and made anew meets what its predecessor left."""
    observed, name = situation.observation.daemon_set, situation.observation.schedext.metadata.name
    owner = observed.metadata.controller if observed else None
    if situation.observation.is_ours or owner is None or (owner.kind, owner.name) != ("SchedExt", name):
        return None
    return unknown(Reason.OLD_DAEMON_SET, f"the DaemonSet of an earlier SchedExt {name} is being deleted")


def name_is_taken(situation: Situation) -> Finding | None:
    """Nobody's DaemonSet is taken over."""
    observed = situation.observation.daemon_set
    if observed is None or situation.observation.is_ours:
        return None
    owner = observed.metadata.controller
    whose = f"belongs to {owner.kind} {owner.name}" if owner else "has no owner"
    words = f"a DaemonSet {observed.metadata.name} already exists and {whose}"
    return no(Reason.NAME_TAKEN, f"{words}: delete the DaemonSet, or give the SchedExt another name")


def daemon_set_was_refused(situation: Situation) -> Finding | None:
    """By a policy or a quota: the CRD lets nothing through that Kubernetes itself refuses."""
    refusal = situation.observation.refusal
    if refusal is None:
        return None
    return no(Reason.DAEMON_SET_REFUSED, f"the API server refused the DaemonSet: {refusal}")


def it_may_not_run(situation: Situation) -> Finding | None:
    """By the administrator's rules, or because nobody has said yet that it may."""
    return situation.decision.vetted.obstacle


def nodes_may_be_contested(situation: Situation) -> Finding | None:
    """Accepted all the same: it may be that they never meet."""
    rival = situation.observation.rival
    if rival is None:
        return None
    other = f"{rival.metadata.namespace}/{rival.metadata.name}"
    advice = "give both SchedExts a nodeSelector with the same label and different values"
    words = f"{other} may want the same nodes, but a kernel runs only one scheduler"
    return yes(Reason.OVERLAPPING, f"{words}: {advice}")


def nothing_is_in_the_way(_: Situation) -> Finding:
    """When no check found anything."""
    return yes(Reason.ACCEPTED, "nothing prevents the deployment of this SchedExt")


OBSTACLES: tuple[Check, ...] = (
    old_one_is_in_the_way,
    name_is_taken,
    it_may_not_run,
    daemon_set_was_refused,
)
ACCEPTED: tuple[Check, ...] = (
    newer_manager_is_needed,
    *OBSTACLES,
    nodes_may_be_contested,
    nothing_is_in_the_way,
)
