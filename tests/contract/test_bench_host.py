"""The host benchmark at a size that says nothing about speed, and everything about whether it still works."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks.host import startups
from rig.base import processes
from rig.cluster.kubeclient import JsonObject

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]  # it boots a guest and attaches six schedulers


@pytest.fixture(scope="module")
def measured() -> JsonObject:
    argv = [sys.executable, "-m", "benchmarks.host", "-o", "json", "--starts", "1", "--rounds", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    found: JsonObject = json.loads(processes.run(argv, cwd=ROOT, env=environment, timeout_s=1400).stdout)
    return found


def test_every_target_is_compared(measured: JsonObject) -> None:
    assert len(measured["targets"]) == 5
    assert all(each["reached"] > 0 for each in measured["targets"])


def test_containerd_is_measured_without_a_target(measured: JsonObject) -> None:
    assert measured["results"]["startups_s"][startups.CONTAINERD][0] > 0


def test_both_attach_and_both_switch(measured: JsonObject) -> None:
    courses = measured["results"]["courses"]
    assert [each["who"] for each in courses["attachments"]] == ["podman", "schedctl"]
    assert [each["who"] for each in courses["gaps"]] == ["podman", "schedctl"]
    assert all(each["gap_s"] > 0 for each in courses["gaps"])
