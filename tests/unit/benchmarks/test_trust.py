"""The trust benchmark's own arithmetic."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.trust import report, targets
from benchmarks.trust.costs import Cost, measure
from benchmarks.trust.targets import KEPT, LOADING, NOTHING, OURS, THEIRS
from rig.base.errors import RigError


def costs(*, ours_ms: float = 120, kept_ms: float = 15) -> list[Cost]:
    """Of a run in which cosign took 100 ms; one round of ours was disturbed."""
    ours = [(OURS, ours_ms), (OURS, ours_ms), (OURS, 9000)]
    figures = [*ours, (THEIRS, 100), (NOTHING, 10), (LOADING, 60), (KEPT, kept_ms)]
    return [Cost(who, each / 1000, each / 1000) for who, each in figures]


def missed(found: list[Cost]) -> list[str]:
    return [each.what.partition(":")[0] for each in targets.compare(found) if not each.is_met]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(costs(), [], id="a run that keeps every promise"),
        pytest.param(costs(ours_ms=150), [], id="exactly what was promised"),
        pytest.param(costs(ours_ms=152), ["cold keyless verification"] * 2, id="slow by processor and clock"),
        pytest.param(costs(kept_ms=21), ["what a kept verdict adds to a command"], id="a slow verdict"),
    ],
)
def test_what_is_missed_is_told_by_medians(found: list[Cost], expected: list[str]) -> None:
    assert missed(found) == expected


def test_the_text_marks_what_was_missed_and_shows_everybody() -> None:
    lines = report.render_text(3, costs(ours_ms=200)).splitlines()

    assert [line for line in lines if "MISSED" in line and "2.00 x" in line] == [
        line for line in lines if "MISSED" in line
    ]
    assert all(any(who in line for line in lines) for who in (OURS, THEIRS, NOTHING, LOADING, KEPT))


def test_the_json_has_targets_and_every_round() -> None:
    found = json.loads(report.render_json(3, costs(ours_ms=200)))

    assert [each["met"] for each in found["targets"]] == [False, False, True]
    assert len(found["results"]) == 7


def test_a_command_costs_what_it_used_and_is_no_success_if_it_failed() -> None:
    work = "import time\nwhile time.process_time() < 0.05: pass\nprint('done')"

    cost, printed = measure("work", [sys.executable, "-S", "-c", work], {})

    assert printed == "done\n"
    assert 0.05 <= cost.cpu_s < 5
    with pytest.raises(RigError, match="work ended with 3"):
        measure("work", [sys.executable, "-S", "-c", "raise SystemExit(3)"], {})
