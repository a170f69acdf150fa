"""The installed `schedctl` in processes of its own: what a call inside the test cannot show.

All else is in `test_situations`: starting Python takes seconds in an emulated guest, so that this is `full`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig import polling, schedext, signedimages
from rig.machines import Machine
from rig.podman import Podman

pytestmark = [pytest.mark.kernel("7"), pytest.mark.full]

TIMEOUT_S = 120


def prepare_on_host() -> None:
    signedimages.layout()


@pytest.fixture
def machine(podman: Podman, tmp_path: Path) -> Iterator[Machine]:
    """Afterwards Podman has no container, and the kernel its own scheduler."""
    machine = Machine.using(podman, tmp_path)
    yield machine
    machine.clear()
    schedext.await_disabled(timeout_s=TIMEOUT_S)


def begin(machine: Machine, *words: str) -> subprocess.Popen[str]:
    program = str(Path(sys.executable).with_name("schedctl"))
    return subprocess.Popen(
        [program, *machine.schedctl.flags, *words],
        env={**os.environ, **machine.schedctl.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(machine: Machine, *words: str) -> tuple[int, str]:
    """Exit code and stdout."""
    process = begin(machine, *words)
    stdout, _ = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, stdout


def test_the_installed_command_runs_shows_and_stops_a_signed_scheduler(machine: Machine) -> None:
    ran = call(machine, "run", signedimages.reference("fifo"))
    assert ran == (0, "the kernel runs rig_fifo, of container fifo\n")
    assert schedext.is_attached("rig_fifo")

    code, status = call(machine, "status", "-o", "json")
    assert (code, json.loads(status)["status"]) == (0, "running")

    assert call(machine, "stop") == (0, "stopped fifo; the kernel runs its own scheduler\n")
    assert (schedext.state(), machine.containers()) == ("disabled", [])


def test_a_killed_run_leaves_what_the_next_call_sees_and_removes(machine: Machine) -> None:
    run = begin(machine, "run", signedimages.reference("slow"), "--", "--load-delay", "600")
    polling.until(
        lambda: machine.schedctl.status()[1]["status"] == "managed-detached", "it waits", timeout_s=TIMEOUT_S
    )

    run.kill()
    run.communicate(timeout=TIMEOUT_S)

    assert machine.schedctl.status()[0] == 2
    assert machine.schedctl("stop").code == 0
    assert machine.containers() == []
