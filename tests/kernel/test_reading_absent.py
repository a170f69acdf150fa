"""A kernel without sched_ext is recognised as one, and readiness says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedkit.kernel import machine
from schedkit.kernel.observation import observe
from schedkit.model.host.status_words import judge
from schedkit.model.kernel.sched_ext import State
from schedkit.model.readiness.facts import Facts
from schedkit.model.readiness.table import examine

pytestmark = pytest.mark.kernel("none")


def test_a_kernel_without_sched_ext_runs_its_own_scheduler() -> None:
    observation = observe(Path("/"))

    assert observation.kernel.state is State.ABSENT
    assert judge(observation._replace(containers=())).status.value == "idle"


def test_readiness_says_that_sched_ext_is_missing_and_in_which_option() -> None:
    findings = {finding.id: finding for finding in examine(Facts(machine.observe(Path("/"))))}

    assert findings["kernel.sched_ext"].is_blocking
    assert findings["kernel.config"].detail == "not set: CONFIG_SCHED_CLASS_EXT"
    assert findings["kernel.btf"].status.value == "pass"
