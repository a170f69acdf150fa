"""The alert rules, as Prometheus itself understands them: its `promtool` plays simulated days of a fleet."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from rig.base import processes
from rig.build import debian
from rig.operator.fleetdays import (
    SCRAPE_S,
    Happening,
    blind_agent,
    eject,
    foreign_scheduler,
    lost_agent,
    ordinary_day,
    series,
    stuck_scheduler,
)
from schedkit.model.api.conditions import Reason
from schedkit.model.report.pod_checks import Bucket

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts/sked/files/alerts.yaml"
NODES, DAY_S = 500, 86400
FIRING = 'ALERTS{alertstate="firing"}'


def promtool() -> Path:
    return debian.machine().tree("prometheus", ["prometheus"], needs=False) / "usr/bin/promtool"


def played(folder: Path, happenings: Iterable[Happening], lasts_s: int, *asked: dict[str, Any]) -> str:
    """What promtool says to these expectations, after the fleet's time was played."""
    shown = series(NODES, happenings, lasts_s)
    script = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{SCRAPE_S}s",
        "tests": [
            {
                "interval": f"{SCRAPE_S}s",
                "input_series": [{"series": name, "values": in_runs(each)} for name, each in shown.items()],
                "promql_expr_test": list(asked),
            }
        ],
    }
    file = folder / "days.yaml"
    file.write_text(yaml.safe_dump(script))
    done = processes.run([promtool(), "test", "rules", file], timeout_s=300, check=False)
    return done.stdout + done.stderr if done.returncode else "SUCCESS"


def in_runs(values: Iterable[int]) -> str:
    """As promtool writes the same value several times: `0x3` is 0 and three more of it."""
    runs = ((value, sum(1 for _ in same)) for value, same in groupby(values))
    return " ".join(f"{value}x{count - 1}" if count > 1 else str(value) for value, count in runs)


def nobody_is_called(at_s: int) -> dict[str, Any]:
    """Until that second."""
    return {"expr": f"count_over_time({FIRING}[{at_s}s])", "eval_time": f"{at_s}s", "exp_samples": []}


def one_is_called(alert: str, at_s: int) -> dict[str, Any]:
    """At that second, by that alert and no other."""
    labels = f'{{alertname="{alert}", name="scx", namespace="team"}}'
    return {
        "expr": f"sum by (alertname, namespace, name) ({FIRING})",
        "eval_time": f"{at_s}s",
        "exp_samples": [{"labels": labels, "value": 1}],
    }


def test_the_rules_are_well_formed() -> None:
    processes.run([promtool(), "check", "rules", RULES], timeout_s=60)


def test_every_bucket_and_reason_that_a_rule_names_exists() -> None:
    words = RULES.read_text()
    known = {*Bucket, *Reason}

    named = {each for part in words.split('"')[1::2] for each in part.split("|")}

    assert named
    assert named <= known


def test_an_ordinary_day_of_500_nodes_calls_nobody(tmp_path: Path) -> None:
    """Simulated: every node is rebooted, fifty join, and every agent is upgraded."""
    day = ordinary_day(NODES, seed=15)

    assert played(tmp_path, day, DAY_S, nobody_is_called(DAY_S)) == "SUCCESS"


@pytest.mark.parametrize(
    ("happening", "alert", "within_s"),
    [
        pytest.param(eject(600, lasts_s=45), "SkedSchedulerEjected", 300, id="an eject, and attached again"),
        pytest.param(foreign_scheduler(600), "SkedForeignScheduler", 300, id="a foreign scheduler"),
        pytest.param(lost_agent(600), "SkedAgentMissing", 300, id="a lost agent"),
        pytest.param(stuck_scheduler(600), "SkedSchedulerNotAttached", 420, id="one that is not attached"),
        pytest.param(blind_agent(600), "SkedKernelUnknown", 660, id="an agent that cannot look"),
    ],
)
def test_somebody_is_called_in_time(happening: Happening, alert: str, within_s: int, tmp_path: Path) -> None:
    asked = nobody_is_called(600), one_is_called(alert, 600 + within_s)
    found = played(tmp_path, [happening], 1500, *asked)

    assert found == "SUCCESS"


def test_a_day_that_is_not_ordinary_calls_somebody(tmp_path: Path) -> None:
    """So that the day above can fail."""
    day = [*ordinary_day(NODES, seed=15), lost_agent(40000)]

    assert "FAILED" in played(tmp_path, day, DAY_S, nobody_is_called(DAY_S))
