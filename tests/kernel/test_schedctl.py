"""The installed `schedctl` in processes of its own, verb by verb, with the kernel's own word after each.

What a user may meet beside that is in `test_situations`, where no interpreter has to be started: that takes
seconds in an emulated guest.
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

from rig.base import polling
from rig.guest import schedext
from rig.guest.schedctl_in_process import Ended
from rig.guest.user_machine import Machine
from rig.registries import signedimages
from rig.runtimes import images
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman

pytestmark = pytest.mark.kernel("7")

TIMEOUT_S = 120
any_driver = pytest.mark.parametrize("driver", ["podman", pytest.param("containerd", marks=pytest.mark.full)])
OWN = ("disabled", None)  # the kernel runs its own scheduler


def prepare_on_host() -> None:
    signedimages.layout()


@pytest.fixture
def machine(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """The machine with that runtime; afterwards it has no container, and the kernel its own scheduler."""
    service: Podman | Containerd = request.getfixturevalue(driver)
    machine = Machine.using(service, tmp_path)
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


def call(machine: Machine, *words: str) -> Ended:
    process = begin(machine, *words)
    stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    return Ended(process.returncode, stdout, stderr)


def done(ended: Ended) -> str:
    """What a call printed that was to succeed."""
    assert ended.code == 0, ended.stderr
    return ended.stdout


def kernel() -> tuple[str, str | None]:
    """State and ops, by the kernel alone."""
    return schedext.state(), schedext.ops()


@any_driver
def test_every_verb_does_what_the_kernel_confirms(machine: Machine, driver: str) -> None:
    assert json.loads(done(call(machine, "doctor", "-o", "json")))["summary"]["blocking"] == 0
    assert kernel() == OWN

    ran = done(call(machine, "run", signedimages.reference("fifo")))
    assert ran == "the kernel runs rig_fifo from container fifo\n"
    assert kernel() == ("enabled", "rig_fifo")

    status = json.loads(done(call(machine, "status", "-o", "json")))
    assert (status["status"], status["driver"], status["kernel"]["ops"]) == ("running", driver, "rig_fifo")
    assert [link.kind for link in schedext.links(status["scheduler"]["pid"])] == ["struct_ops"]

    (listed,) = json.loads(done(call(machine, "ps", "-o", "json")))["containers"]
    assert (listed["pid"], listed["signer"]) == (status["scheduler"]["pid"], signedimages.SIGNER)
    assert listed["digest"] == images.digest(signedimages.image("fifo"))
    assert done(call(machine, "logs")) == "registered with the kernel\n"
    assert kernel() == ("enabled", "rig_fifo")

    switched = done(call(machine, "switch", signedimages.reference("alias")))
    assert switched.startswith("the kernel runs totally_different from container alias, instead of fifo; ")
    assert (kernel(), machine.containers()) == (("enabled", "totally_different"), ["alias"])

    assert done(call(machine, "stop")) == "stopped alias; the kernel runs its own scheduler\n"
    assert (kernel(), machine.containers()) == (OWN, [])

    done(call(machine, "run", signedimages.reference("fifo")))
    assert kernel() == ("enabled", "rig_fifo")
    assert done(call(machine, "reset", "--yes")) == "the kernel runs its own scheduler\n"
    assert (kernel(), machine.containers()) == (OWN, [])


@pytest.mark.full
@any_driver
def test_attached_it_reads_our_input_and_ctrl_c_ends_it_with_its_own_exit_code(machine: Machine) -> None:
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
    assert (kernel(), machine.containers()) == (OWN, [])


@pytest.mark.full
@any_driver
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
