"""The benchmark at a size that says nothing about speed, and everything about whether it still works."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rig.base import processes
from rig.cluster.kubeclient import JsonObject

ROOT = Path(__file__).parents[2]
SCHEDEXTS, NODES = 20, 40
SIZES = {"schedexts": SCHEDEXTS, "nodes": NODES, "samples": 5, "rounds": 1, "rest-s": 0}

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]  # it builds a Go program and runs a minute


@pytest.fixture(scope="module")
def measured() -> JsonObject:
    words = [word for name, value in SIZES.items() for word in (f"--{name}", str(value))]
    argv = [sys.executable, "-m", "benchmarks.cluster", "-o", "json", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    found: JsonObject = json.loads(processes.run(argv, cwd=ROOT, env=environment, timeout_s=1100).stdout)
    return found


def test_every_target_is_compared(measured: JsonObject) -> None:
    assert len(measured["targets"]) == 9
    assert all(each["reached"] > 0 for each in measured["targets"])


def test_everybody_makes_the_writes_that_the_job_needs(measured: JsonObject) -> None:
    """A SchedExt, a DaemonSet and a status each; who writes a status too early writes it twice."""
    writes = {each["who"]: each["writes"] for each in measured["results"]["convergences"]}
    assert writes["API server alone"] == 3 * SCHEDEXTS
    assert set(writes) == {"API server alone", "sked", "peer", "peer with rate limits"}
    assert all(3 * SCHEDEXTS <= count <= 6 * SCHEDEXTS for count in writes.values()), writes


def test_both_fleets_are_measured(measured: JsonObject) -> None:
    assert [each["who"] for each in measured["results"]["fleets"]] == ["sked", "peer"]
