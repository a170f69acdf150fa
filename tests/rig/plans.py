"""All that sked does about what is seen, at once and without a pause."""

from __future__ import annotations

from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import plan_daemon_set
from schedkit.model.report.plan import Action, Plan, reporting


def make_plan(observation: Observation) -> Plan:
    """What to do, in this order. A plan made after it was carried out has no actions."""
    report = _report(observation)
    return Plan((*plan_daemon_set(observation), *report.actions), report.look_again_at)


def plan(observation: Observation) -> tuple[Action, ...]:
    """The actions alone."""
    return make_plan(observation).actions


def _report(observation: Observation) -> Plan:
    steps = reporting(observation)
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            report: Plan = finished.value
            return report
