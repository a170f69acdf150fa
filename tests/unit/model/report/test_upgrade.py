"""An upgrade of all agents of a big fleet, simulated: a tenth of them at a time, the manager with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from rig.builders.observations import NOW, daemon_set, observation, pod, running, schedext
from rig.builders.reports import attached, of_pod, sight
from schedkit.model.api.pods import Pod
from schedkit.model.api.schedext import Condition, SchedExtStatus
from schedkit.model.deploy.plan import decide
from schedkit.model.report.fleet import Survey, survey
from schedkit.model.report.kernel_checks import ProvedState
from schedkit.model.report.pod_checks import NodeState
from schedkit.model.report.sights import Sight
from schedkit.model.report.status import compute_status

NODES, WAVES, STEP_S = 5000, 10, 60
PODS = tuple(pod(f"node-{number}", running(3600)) for number in range(NODES))


class Fleet:
    """What the manager knows of each node; only nodes that change are judged again."""

    def __init__(self) -> None:
        asked = schedext()
        self.seen = observation(asked, *PODS, daemon_set=daemon_set(asked, desired=NODES))
        self.decision, surveyed = decide(self.seen), self._surveyed()
        self.said: list[NodeState] = list(map(surveyed.state_of, PODS))
        self.good: list[ProvedState] = [
            surveyed.kernel_of(each, said, self._sight(each))
            for each, said in zip(PODS, self.said, strict=True)
        ]

    def _surveyed(self) -> Survey:
        return survey(self.seen, is_changing=False)

    def _sight(self, on: Pod, **beside: object) -> Sight:
        return sight(attached(of_pod(on.metadata.uid)), **beside)

    def conditions(self, at_s: int, away: Iterable[int], **beside: object) -> tuple[Condition, ...]:
        """What users are told at that second, while these agents are away."""
        self.seen = replace(self.seen, now=NOW + timedelta(seconds=at_s), has_agents=True)
        surveyed, kernels = self._surveyed(), list(self.good)
        for number in away:
            silent = self._sight(PODS[number], has_agent=False, **beside)
            kernels[number] = surveyed.kernel_of(PODS[number], self.said[number], silent)
        status: SchedExtStatus = compute_status(self.seen, self.decision, surveyed.fleet(self.said, kernels))
        self.seen = replace(self.seen, schedext=msgspec.structs.replace(self.seen.schedext, status=status))
        return status.conditions


@pytest.mark.parametrize(
    ("away_s", "answers"),
    [
        pytest.param(119, {("True", "Attached")}, id="each is away for less than two minutes"),
        pytest.param(150, {("True", "Attached"), ("Unknown", "AgentMissing")}, id="for longer: it can fail"),
    ],
)
def test_upgrading_all_agents_and_the_manager_changes_no_condition(
    away_s: int, answers: set[tuple[str, str]]
) -> None:
    fleet, told = Fleet(), set()
    for wave in range(WAVES):
        begins = wave * 180
        for at_s in (*range(begins, begins + away_s, STEP_S), begins + away_s - 1):
            # in the fifth wave the manager itself is made anew, and first sees the agents away
            silence = {"silent_since": NOW + timedelta(seconds=begins), "is_unheard": wave == 5}
            found = fleet.conditions(at_s, range(wave * 500, (wave + 1) * 500), **silence)
            told.add(found)

    assert {(each.status, each.reason) for found in told for each in found if each.type == "Ready"} == answers
    assert (len(told) == 1) == (len(answers) == 1)
