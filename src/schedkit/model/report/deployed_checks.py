"""Whether a SchedExt is Deployed and Progressing, by its pods.

For each there is a table of checks, of which the first that speaks decides: their order is the specification.
"""

from __future__ import annotations

from schedkit.model.api.conditions import Finding, Reason, no, unknown, yes
from schedkit.model.api.schedext import STOP_KEY
from schedkit.model.deploy.render import LEGACY_LACKS
from schedkit.model.deploy.stops import stop_of, words_of_stop
from schedkit.model.report.accepted_checks import OBSTACLES, Check, Situation, newer_manager_is_needed
from schedkit.model.report.pod_checks import SETTLING, Bucket

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
    findings = (finding for check in OBSTACLES if (finding := check(situation)) is not None)
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
