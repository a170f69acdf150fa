"""The installed `schedctl` in processes of its own: what a call inside the test cannot show.

All else is in `test_situations`: starting Python takes seconds in an emulated guest, so that this is `full`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig import polling, schedext, signedimages
from rig.containerd import Containerd
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
        stdin=subprocess.PIPE,
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


@pytest.mark.parametrize("driver", ["podman", "containerd"])
def test_attached_it_reads_our_input_and_ctrl_c_ends_it_with_its_own_exit_code(
    driver: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    service: Podman | Containerd = request.getfixturevalue(driver)
    machine = Machine.using(service, tmp_path)
    run = begin(machine, "run", signedimages.reference("fifo"), "--attach")
    polling.until(lambda: schedext.is_attached("rig_fifo"), "it is attached", timeout_s=TIMEOUT_S)
    pid = machine.schedctl.status()[1]["scheduler"]["pid"]
    assert run.stdin is not None

    run.stdin.write("for the scheduler")
    run.stdin.flush()

    # it reads nothing itself: what is there for it to read is taken in its place
    with Path(f"/proc/{pid}/fd/0").open("rb", buffering=0) as waiting:
        os.set_blocking(waiting.fileno(), False)
        given = polling.until(lambda: waiting.read(100), "our input is there", timeout_s=TIMEOUT_S)
    assert given == b"for the scheduler"
    run.send_signal(signal.SIGINT)
    stdout, _ = run.communicate(timeout=TIMEOUT_S)
    assert (run.returncode, stdout) == (0, "registered with the kernel\n")
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
