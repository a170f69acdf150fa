"""Whether a SchedExt is Accepted, Deployed and Progressing, by its spec and its pods.

For each there is a table of checks, of which the first that speaks decides: their order is the specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedkit.model.api.conditions import Finding, Reason, no, unknown, yes
from schedkit.model.api.schedext import STOP_KEY
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import Decision
from schedkit.model.deploy.render import LEGACY_LACKS
from schedkit.model.deploy.stops import stop_of, words_of_stop
from schedkit.model.report.fleet import Fleet
from schedkit.model.report.pod_checks import SETTLING, Bucket


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


# Accepted: can the spec be turned into a DaemonSet?


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


_OBSTACLES: tuple[Check, ...] = (
    old_one_is_in_the_way,
    name_is_taken,
    it_may_not_run,
    daemon_set_was_refused,
)
ACCEPTED: tuple[Check, ...] = (
    newer_manager_is_needed,
    *_OBSTACLES,
    nodes_may_be_contested,
    nothing_is_in_the_way,
)


# Deployed: have pods run everywhere for a while without a restart?


def wanted_is_not_known(situation: Situation) -> Finding | None:
    """What runs there may be just what is wanted, or not."""
    found = newer_manager_is_needed(situation)
    return unknown(found.reason, found.message) if found else None


def nothing_should_run(situation: Situation) -> Finding | None:
    """The user said so, or whoever was awake when it did harm."""
    schedext = situation.observation.schedext
    stop = stop_of(schedext)
    if stop is not None:
        whose = f"{schedext.metadata.name} -n {schedext.metadata.namespace}"
        way_out = f"`kubectl sked resume {whose}`, or removing the annotation {STOP_KEY},"
        return no(Reason.STOPPED, f"{words_of_stop(stop)}; {way_out} starts it again")
    if not schedext.spec.suspend:
        return None
    return no(Reason.SUSPENDED, "spec.suspend is true: nothing runs")


def something_is_in_the_way(situation: Situation) -> Finding | None:
    """Whatever keeps the spec from being accepted keeps pods from running, too."""
    findings = (finding for check in _OBSTACLES if (finding := check(situation)) is not None)
    found = next(findings, None)
    return no(found.reason, found.message) if found else None


def some_nodes_are_ill(situation: Situation) -> Finding | None:
    """The worst speaks for all of its kind."""
    troubled = situation.fleet.troubled
    if not troubled:
        return None
    worst = troubled[0]
    alike = sum(node.reason is worst.reason for node in troubled)
    where = f", such as {worst.node}" if worst.node else ""
    return no(worst.reason, f"{alike} of {situation.size}{where}: {worst.message}")


def change_is_not_seen_yet(situation: Situation) -> Finding | None:
    """There is none yet, or what its status says is about an older spec."""
    if situation.fleet.is_current:
        return None
    return no(Reason.ROLLING_OUT, "the DaemonSet controller has not seen the last change yet")


def old_pods_remain(situation: Situation) -> Finding | None:
    """Until the last node has a pod of the current template."""
    if not situation.fleet.outdated:
        return None
    where = f"{situation.fleet.outdated} of {situation.size}"
    return no(Reason.ROLLING_OUT, f"pods of an older template run on {where}")


def no_node_matches(situation: Situation) -> Finding | None:
    """Most often a typo in a label."""
    if situation.fleet.nodes:
        return None
    return no(Reason.NO_NODES, "no node matches nodeSelector, affinity and tolerations")


def pods_are_young(situation: Situation) -> Finding | None:
    """Success is announced after a while, so that a crash loop is never announced as one."""
    unsettled = sum(not node.is_settled for node in situation.fleet.nodes)
    if not unsettled:
        return None
    return no(
        Reason.SETTLING,
        f"on {unsettled} of {situation.size}, "
        f"pods still have to run for {SETTLING.seconds} s without a restart",
    )


def pods_run_everywhere(situation: Situation) -> Finding:
    """When no check found anything."""
    return yes(Reason.PODS_SETTLED, f"pods run on {situation.size}")


DEPLOYED: tuple[Check, ...] = (
    wanted_is_not_known,
    nothing_should_run,
    something_is_in_the_way,
    some_nodes_are_ill,
    change_is_not_seen_yet,
    old_pods_remain,
    no_node_matches,
    pods_are_young,
    pods_run_everywhere,
)


# Progressing: is something on its way?


def everything_is_left_alone(situation: Situation) -> Finding | None:
    """Until a newer manager comes."""
    found = newer_manager_is_needed(situation)
    return no(Reason.BLOCKED, found.message) if found else None


def nothing_can_be_done(situation: Situation) -> Finding | None:
    """Before the obstacle is gone."""
    found = something_is_in_the_way(situation)
    return no(Reason.BLOCKED, found.message) if found else None


def pods_are_being_started(situation: Situation) -> Finding | None:
    """Nodes that have just got, or will get, a pod."""
    starting = sum(node.bucket is Bucket.STARTING for node in situation.fleet.nodes)
    if not starting:
        return None
    return yes(Reason.STARTING, f"pods are being started on {starting} of {situation.size}")


def pods_are_of_the_go_sked(situation: Situation) -> Finding | None:
    """They do what the spec asks for, and are left alone."""
    if not situation.decision.is_legacy:
        return None
    words = (
        "an earlier version of sked made the pods; "
        "they stay until the spec changes, so that nothing restarts now"
    )
    return no(Reason.LEGACY_TEMPLATE, f"{words}; they lack {LEGACY_LACKS}")


def everything_is_up_to_date(_: Situation) -> Finding:
    """When no check found anything."""
    return no(Reason.UP_TO_DATE, "every pod is made from the current spec")


def _on_its_way(check: Check) -> Check:
    """The same check, whose bad news for Deployed is that something is under way."""

    def checked(situation: Situation) -> Finding | None:
        found = check(situation)
        return yes(found.reason, found.message) if found else None

    return checked


PROGRESSING: tuple[Check, ...] = (
    everything_is_left_alone,
    nothing_should_run,
    nothing_can_be_done,
    _on_its_way(change_is_not_seen_yet),
    _on_its_way(old_pods_remain),
    pods_are_being_started,
    pods_are_of_the_go_sked,
    everything_is_up_to_date,
)
