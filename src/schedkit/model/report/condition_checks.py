"""The answers to a SchedExt's conditions.

For each there is a table of checks, of which the first that speaks decides: their order is the specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from schedkit.model.api.conditions import Finding, Reason, no, unknown, yes
from schedkit.model.api.schedext import STOP_KEY, ConditionStatus, ConditionType
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import Decision
from schedkit.model.deploy.render import LEGACY_LACKS
from schedkit.model.deploy.stops import stop_of, words_of_stop
from schedkit.model.report.evidence import ProvedState
from schedkit.model.report.fleet import Fleet, by_severity
from schedkit.model.report.node_checks import SETTLING, Bucket
from schedkit.model.trust.rules import Rules, unused_settings_remark


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


def assess(
    observation: Observation, decision: Decision, fleet: Fleet
) -> tuple[tuple[ConditionType, Finding], ...]:
    """The answer to every question."""
    evidence = Situation(observation, decision, fleet)
    deployed = _first(DEPLOYED, evidence)
    return (
        (ConditionType.ACCEPTED, _with_unused_settings(_first(ACCEPTED, evidence), observation.rules)),
        (ConditionType.VERIFIED, decision.vetted.verified),
        (ConditionType.DEPLOYED, deployed),
        (ConditionType.PROGRESSING, _first(PROGRESSING, evidence)),
        (ConditionType.READY, _ready(evidence, deployed)),
    )


def _first(checks: tuple[Check, ...], evidence: Situation) -> Finding:
    return next(finding for check in checks if (finding := check(evidence)) is not None)


def _with_unused_settings(finding: Finding, rules: Rules | None) -> Finding:
    """Whatever the answer, nobody shall think that such a setting had a part in it."""
    remark = unused_settings_remark(rules) if rules else ""
    return replace(finding, message=f"{finding.message}; {remark}") if remark else finding


# Accepted: can the spec be turned into a DaemonSet?


def newer_manager_is_needed(evidence: Situation) -> Finding | None:
    """Whoever does not know what was meant undoes nothing."""
    needs = evidence.decision.unknown_needs
    if not needs:
        return None
    words = f"a newer sked wrote this SchedExt or its DaemonSet, and this one does not know {_listed(needs)}"
    return no(Reason.NEWER_MANAGER_NEEDED, f"{words}: nothing is changed; upgrade the operator")


def _listed(words: tuple[str, ...]) -> str:
    """The first of them: users may write there what they want."""
    shown = ", ".join(each[:_LONGEST_WORD] for each in words[:_MAX_WORDS_SHOWN])
    rest = len(words) - _MAX_WORDS_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def old_one_is_in_the_way(evidence: Situation) -> Finding | None:
    """A SchedExt that was deleted and made anew meets what its predecessor left."""
    observed, name = evidence.observation.daemon_set, evidence.observation.schedext.metadata.name
    owner = observed.metadata.controller if observed else None
    if evidence.observation.is_ours or owner is None or (owner.kind, owner.name) != ("SchedExt", name):
        return None
    return unknown(Reason.OLD_DAEMON_SET, f"the DaemonSet of an earlier SchedExt {name} is being deleted")


def name_is_taken(evidence: Situation) -> Finding | None:
    """Nobody's DaemonSet is taken over."""
    observed = evidence.observation.daemon_set
    if observed is None or evidence.observation.is_ours:
        return None
    owner = observed.metadata.controller
    whose = f"belongs to {owner.kind} {owner.name}" if owner else "has no owner"
    words = f"a DaemonSet {observed.metadata.name} already exists and {whose}"
    return no(Reason.NAME_TAKEN, f"{words}: delete the DaemonSet, or give the SchedExt another name")


def daemon_set_was_refused(evidence: Situation) -> Finding | None:
    """By a policy or a quota: the CRD lets nothing through that Kubernetes itself refuses."""
    refusal = evidence.observation.refusal
    if refusal is None:
        return None
    return no(Reason.DAEMON_SET_REFUSED, f"the API server refused the DaemonSet: {refusal}")


def it_may_not_run(evidence: Situation) -> Finding | None:
    """By the administrator's rules, or because nobody has said yet that it may."""
    return evidence.decision.vetted.obstacle


def nodes_may_be_contested(evidence: Situation) -> Finding | None:
    """Accepted all the same: it may be that they never meet."""
    rival = evidence.observation.rival
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


def wanted_is_not_known(evidence: Situation) -> Finding | None:
    """What runs there may be just what is wanted, or not."""
    found = newer_manager_is_needed(evidence)
    return unknown(found.reason, found.message) if found else None


def nothing_should_run(evidence: Situation) -> Finding | None:
    """The user said so, or whoever was awake when it did harm."""
    schedext = evidence.observation.schedext
    stop = stop_of(schedext)
    if stop is not None:
        whose = f"{schedext.metadata.name} -n {schedext.metadata.namespace}"
        way_out = f"`kubectl sked resume {whose}`, or removing the annotation {STOP_KEY},"
        return no(Reason.STOPPED, f"{words_of_stop(stop)}; {way_out} starts it again")
    if not schedext.spec.suspend:
        return None
    return no(Reason.SUSPENDED, "spec.suspend is true: nothing runs")


def something_is_in_the_way(evidence: Situation) -> Finding | None:
    """Whatever keeps the spec from being accepted keeps pods from running, too."""
    findings = (finding for check in _OBSTACLES if (finding := check(evidence)) is not None)
    found = next(findings, None)
    return no(found.reason, found.message) if found else None


def some_nodes_are_ill(evidence: Situation) -> Finding | None:
    """The worst speaks for all of its kind."""
    troubled = evidence.fleet.troubled
    if not troubled:
        return None
    worst = troubled[0]
    alike = sum(node.reason is worst.reason for node in troubled)
    where = f", such as {worst.node}" if worst.node else ""
    return no(worst.reason, f"{alike} of {evidence.size}{where}: {worst.message}")


def change_is_not_seen_yet(evidence: Situation) -> Finding | None:
    """There is none yet, or what its status says is about an older spec."""
    if evidence.fleet.is_current:
        return None
    return no(Reason.ROLLING_OUT, "the DaemonSet controller has not seen the last change yet")


def old_pods_remain(evidence: Situation) -> Finding | None:
    """Until the last node has a pod of the current template."""
    if not evidence.fleet.outdated:
        return None
    where = f"{evidence.fleet.outdated} of {evidence.size}"
    return no(Reason.ROLLING_OUT, f"pods of an older template run on {where}")


def no_node_matches(evidence: Situation) -> Finding | None:
    """Most often a typo in a label."""
    if evidence.fleet.nodes:
        return None
    return no(Reason.NO_NODES, "no node matches nodeSelector, affinity and tolerations")


def pods_are_young(evidence: Situation) -> Finding | None:
    """Success is announced after a while, so that a crash loop is never announced as one."""
    unsettled = sum(not node.is_settled for node in evidence.fleet.nodes)
    if not unsettled:
        return None
    return no(
        Reason.SETTLING,
        f"on {unsettled} of {evidence.size}, "
        f"pods still have to run for {SETTLING.seconds} s without a restart",
    )


def pods_run_everywhere(evidence: Situation) -> Finding:
    """When no check found anything."""
    return yes(Reason.PODS_SETTLED, f"pods run on {evidence.size}")


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


def everything_is_left_alone(evidence: Situation) -> Finding | None:
    """Until a newer manager comes."""
    found = newer_manager_is_needed(evidence)
    return no(Reason.BLOCKED, found.message) if found else None


def nothing_can_be_done(evidence: Situation) -> Finding | None:
    """Before the obstacle is gone."""
    found = something_is_in_the_way(evidence)
    return no(Reason.BLOCKED, found.message) if found else None


def pods_are_being_started(evidence: Situation) -> Finding | None:
    """Nodes that have just got, or will get, a pod."""
    starting = sum(node.bucket is Bucket.STARTING for node in evidence.fleet.nodes)
    if not starting:
        return None
    return yes(Reason.STARTING, f"pods are being started on {starting} of {evidence.size}")


def pods_are_of_the_go_sked(evidence: Situation) -> Finding | None:
    """They do what the spec asks for, and are left alone."""
    if not evidence.decision.is_legacy:
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

    def checked(evidence: Situation) -> Finding | None:
        found = check(evidence)
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


# Ready: are kernels proved to run the scheduler?

_PODS_MAY_RUN = frozenset({Reason.SETTLING, Reason.ROLLING_OUT, Reason.POD_STARTING})


def _ready(evidence: Situation, deployed: Finding) -> Finding:
    """By what nodes report; without any report, no more than pods can tell."""
    if evidence.observation.has_agents:
        return _first(READY, evidence)
    found = _without_reports(deployed)
    refused = agents_are_refused(evidence) if found.reason is Reason.NO_KERNEL_REPORTS else None
    return refused or found


def _without_reports(deployed: Finding) -> Finding:
    """Where no pod can run, no kernel runs it; elsewhere nobody knows."""
    if deployed.status is ConditionStatus.UNKNOWN:
        return deployed
    if deployed.status is ConditionStatus.TRUE or deployed.reason in _PODS_MAY_RUN:
        return unknown(Reason.NO_KERNEL_REPORTS, "no node reports what its kernel runs")
    return no(deployed.reason, deployed.message)


def agents_are_refused(evidence: Situation) -> Finding | None:
    """By Pod Security or another policy: then nobody can report."""
    refusal = evidence.observation.agent_refusal
    if not refusal:
        return None
    return unknown(Reason.AGENT_REFUSED, f"the agents on the nodes cannot be created: {refusal}")


def kernels_lack_it(evidence: Situation) -> Finding | None:
    """The worst of the nodes that can answer."""
    ill = [each for each in evidence.fleet.unattached if each.bucket is not Bucket.UNKNOWN]
    worst = _worst_that_counts(ill)
    return no(worst.reason, _told(evidence, worst)) if worst else None


def kernels_are_not_known(evidence: Situation) -> Finding | None:
    """A node that Kubernetes calls Ready should say what its kernel runs."""
    silent = [each for each in evidence.fleet.unattached if each.bucket is Bucket.UNKNOWN]
    worst = _worst_that_counts(silent)
    if worst is None:
        return None
    is_refused = any(each.reason is Reason.AGENT_MISSING for each in silent)
    refused = agents_are_refused(evidence) if is_refused else None
    return refused or unknown(worst.reason, _told(evidence, worst))


def no_pod_is_wanted(evidence: Situation) -> Finding | None:
    """Nobody is attached where nobody is."""
    if evidence.fleet.nodes:
        return None
    return change_is_not_seen_yet(evidence) or no_node_matches(evidence)


def no_kernel_runs_it(evidence: Situation) -> Finding | None:
    """Nodes that do not count against Ready do not make it True, either."""
    if len(evidence.fleet.unattached) < len(evidence.fleet.kernels):
        return None
    worst = by_severity(evidence.fleet.unattached)[0]
    answer = unknown if worst.bucket is Bucket.UNKNOWN else no
    return answer(worst.reason, _told(evidence, worst))


def kernels_run_an_older_one(evidence: Situation) -> Finding | None:
    """What the spec asked for before its last change, which is still on its way to these nodes."""
    older = evidence.fleet.outdated_kernels
    if not older:
        return None
    where = f"{len(older)} of {evidence.size}, such as {older[0].node}"
    words = f"the kernels of {where}, run the scheduler of a pod from before the last change"
    strategy = evidence.observation.schedext.spec.update_strategy
    is_by_hand = strategy is not None and strategy.type == "OnDelete"
    advice = ": delete these pods, because updateStrategy is OnDelete" if is_by_hand else ""
    return no(Reason.ROLLING_OUT, words + advice)


def kernels_run_it(evidence: Situation) -> Finding:
    """When no check found anything."""
    excused = len(evidence.fleet.unattached)
    attached = len(evidence.fleet.kernels) - excused
    rest = f"; {excused} not ready, new or not eligible" if excused else ""
    where = f"{attached} of {evidence.size}" if excused else evidence.size
    return yes(Reason.ATTACHED, f"the kernels of {where} run the scheduler{rest}")


READY: tuple[Check, ...] = (
    wanted_is_not_known,
    nothing_should_run,
    something_is_in_the_way,
    no_pod_is_wanted,
    kernels_lack_it,
    kernels_are_not_known,
    no_kernel_runs_it,
    kernels_run_an_older_one,
    kernels_run_it,
)


def _worst_that_counts(nodes: list[ProvedState]) -> ProvedState | None:
    return next(iter(by_severity(each for each in nodes if not each.is_excused)), None)


def _told(evidence: Situation, worst: ProvedState) -> str:
    """The worst node speaks for all of its kind."""
    alike = sum(each.reason is worst.reason for each in evidence.fleet.kernels)
    where = f", such as {worst.node}" if worst.node else ""
    return f"{alike} of {evidence.size}{where}: {worst.message}"
