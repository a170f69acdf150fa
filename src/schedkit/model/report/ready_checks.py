"""Whether a SchedExt is Ready: whether kernels are proved to run its scheduler.

The checks of pods speak first: where no pod can run, no kernel is asked.
"""

from __future__ import annotations

from schedkit.model.api.conditions import Finding, Reason, no, unknown, yes
from schedkit.model.api.schedext import ConditionStatus
from schedkit.model.report.accepted_checks import Check, Situation, first
from schedkit.model.report.deployed_checks import (
    change_is_not_seen_yet,
    no_node_matches,
    nothing_should_run,
    something_is_in_the_way,
    wanted_is_not_known,
)
from schedkit.model.report.fleet import by_severity
from schedkit.model.report.kernel_checks import ProvedState
from schedkit.model.report.pod_checks import Bucket

_PODS_MAY_RUN = frozenset({Reason.SETTLING, Reason.ROLLING_OUT, Reason.POD_STARTING})


def ready_finding(situation: Situation, deployed: Finding) -> Finding:
    """By what nodes report; without any report, no more than pods can tell."""
    if situation.observation.has_agents:
        return first(READY, situation)
    found = _without_reports(deployed)
    refused = agents_are_refused(situation) if found.reason is Reason.NO_KERNEL_REPORTS else None
    return refused or found


def _without_reports(deployed: Finding) -> Finding:
    """Where no pod can run, no kernel runs it; elsewhere nobody knows."""
    if deployed.status is ConditionStatus.UNKNOWN:
        return deployed
    if deployed.status is ConditionStatus.TRUE or deployed.reason in _PODS_MAY_RUN:
        return unknown(Reason.NO_KERNEL_REPORTS, "no node reports what its kernel runs")
    return no(deployed.reason, deployed.message)


def agents_are_refused(situation: Situation) -> Finding | None:
    """By Pod Security or another policy: then nobody can report."""
    refusal = situation.observation.agent_refusal
    if not refusal:
        return None
    return unknown(Reason.AGENT_REFUSED, f"the agents on the nodes cannot be created: {refusal}")


def kernels_lack_it(situation: Situation) -> Finding | None:
    """The worst of the nodes that can answer."""
    ill = [each for each in situation.fleet.unattached if each.bucket is not Bucket.UNKNOWN]
    worst = _worst_that_counts(ill)
    return no(worst.reason, _told(situation, worst)) if worst else None


def kernels_are_not_known(situation: Situation) -> Finding | None:
    """A node that Kubernetes calls Ready should say what its kernel runs."""
    silent = [each for each in situation.fleet.unattached if each.bucket is Bucket.UNKNOWN]
    worst = _worst_that_counts(silent)
    if worst is None:
        return None
    is_refused = any(each.reason is Reason.AGENT_MISSING for each in silent)
    refused = agents_are_refused(situation) if is_refused else None
    return refused or unknown(worst.reason, _told(situation, worst))


def no_pod_is_wanted(situation: Situation) -> Finding | None:
    """Nobody is attached where nobody is."""
    if situation.fleet.nodes:
        return None
    return change_is_not_seen_yet(situation) or no_node_matches(situation)


def no_kernel_runs_it(situation: Situation) -> Finding | None:
    """Nodes that do not count against Ready do not make it True, either."""
    if len(situation.fleet.unattached) < len(situation.fleet.kernels):
        return None
    worst = by_severity(situation.fleet.unattached)[0]
    answer = unknown if worst.bucket is Bucket.UNKNOWN else no
    return answer(worst.reason, _told(situation, worst))


def kernels_run_an_older_one(situation: Situation) -> Finding | None:
    """What the spec asked for before its last change, which is still on its way to these nodes."""
    older = situation.fleet.outdated_kernels
    if not older:
        return None
    where = f"{len(older)} of {situation.size}, such as {older[0].node}"
    words = f"the kernels of {where}, run the scheduler of a pod from before the last change"
    strategy = situation.observation.schedext.spec.update_strategy
    is_by_hand = strategy is not None and strategy.type == "OnDelete"
    advice = ": delete these pods, because updateStrategy is OnDelete" if is_by_hand else ""
    return no(Reason.ROLLING_OUT, words + advice)


def kernels_run_it(situation: Situation) -> Finding:
    """When no check found anything."""
    excused = len(situation.fleet.unattached)
    attached = len(situation.fleet.kernels) - excused
    rest = f"; {excused} not ready, new or not eligible" if excused else ""
    where = f"{attached} of {situation.size}" if excused else situation.size
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


def _told(situation: Situation, worst: ProvedState) -> str:
    """The worst node speaks for all of its kind."""
    alike = sum(each.reason is worst.reason for each in situation.fleet.kernels)
    where = f", such as {worst.node}" if worst.node else ""
    return f"{alike} of {situation.size}{where}: {worst.message}"
