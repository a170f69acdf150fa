"""The status of a SchedExt, computed anew from what is seen each time. Nothing is remembered but dates."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from schedkit.model.api.conditions import Finding, carry_dates, condition, legible
from schedkit.model.api.schedext import (
    MAX_TROUBLES,
    ConditionType,
    NodeCounts,
    NodeTrouble,
    SchedExtStatus,
    TroubleKind,
)
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import Decision
from schedkit.model.report.accepted_checks import ACCEPTED, Situation, first
from schedkit.model.report.deployed_checks import DEPLOYED, PROGRESSING
from schedkit.model.report.fleet import Fleet
from schedkit.model.report.ready_checks import ready_finding
from schedkit.model.trust.rules import Rules, unused_settings_remark

MAX_WORST_NODES = 5


def compute_status(observation: Observation, decision: Decision, fleet: Fleet) -> SchedExtStatus:
    """What to tell the user."""
    schedext = observation.schedext
    before = schedext.status or SchedExtStatus()
    generation = schedext.metadata.generation
    findings = _findings(Situation(observation, decision, fleet))
    computed = [condition(kind, finding, generation) for kind, finding in findings]
    return SchedExtStatus(
        observed_generation=generation,
        image=fleet.image,
        signer=decision.vetted.signer,
        verification=decision.vetted.rests_on,
        nodes=_counts(fleet),
        worst_nodes=_worst(fleet),
        troubles=_troubles(fleet),
        conditions=carry_dates(before.conditions, computed, observation.now),
    )


def _findings(situation: Situation) -> tuple[tuple[ConditionType, Finding], ...]:
    """The answer to every question."""
    deployed = first(DEPLOYED, situation)
    accepted = _with_unused_settings(first(ACCEPTED, situation), situation.observation.rules)
    return (
        (ConditionType.ACCEPTED, accepted),
        (ConditionType.VERIFIED, situation.decision.vetted.verified),
        (ConditionType.DEPLOYED, deployed),
        (ConditionType.PROGRESSING, first(PROGRESSING, situation)),
        (ConditionType.READY, ready_finding(situation, deployed)),
    )


def _with_unused_settings(finding: Finding, rules: Rules | None) -> Finding:
    """Whatever the answer, nobody shall think that such a setting had a part in it."""
    remark = unused_settings_remark(rules) if rules else ""
    return replace(finding, message=f"{finding.message}; {remark}") if remark else finding


def _counts(fleet: Fleet) -> NodeCounts:
    buckets = Counter(node.bucket.value for node in fleet.counted)
    ready = sum(node.is_ready for node in fleet.nodes)
    updated = sum(each.is_updated for each in fleet.kernels)
    return NodeCounts(desired=len(fleet.nodes), updated=updated, pods_ready=ready, **buckets)


def _worst(fleet: Fleet) -> tuple[NodeTrouble, ...]:
    return tuple(
        NodeTrouble(name=node.node, reason=node.reason.value, message=legible(node.message))
        for node in fleet.worst[:MAX_WORST_NODES]
    )


def _troubles(fleet: Fleet) -> tuple[TroubleKind, ...]:
    """All nodes in trouble by reason, the worst first; the example is the first of them by name."""
    examples: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for node in fleet.worst:
        counts[node.reason.value] += 1
        examples.setdefault(node.reason.value, node.node)
    kinds = (TroubleKind(reason=each, nodes=counts[each], example=examples[each]) for each in counts)
    return tuple(kinds)[:MAX_TROUBLES]
