"""On a kernel without sched_ext `schedctl` says so, whatever it is asked, and starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.guest.user_machine import Machine
from rig.registries import signedimages
from rig.runtimes.podman import Podman

pytestmark = pytest.mark.kernel("none")


def prepare_on_host() -> None:
    signedimages.layout()


@pytest.fixture
def machine(podman: Podman, tmp_path: Path) -> Machine:
    return Machine.using(podman, tmp_path)


def test_status_is_idle_and_says_why(machine: Machine) -> None:
    code, said = machine.schedctl.status()

    assert (code, said["status"], said["kernel"]["supported"]) == (0, "idle", False)
    assert said["message"] == "this kernel has no sched_ext: it runs its own scheduler"


def test_nothing_is_run(machine: Machine) -> None:
    refused = machine.run("fifo")

    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: this kernel has no sched_ext\n  why:  ")
    assert "\n  next: `schedctl doctor` says what the kernel lacks\n" in refused.stderr
    assert (machine.containers(), machine.images()) == ([], [])


def test_the_doctor_says_which_option_the_kernel_lacks(machine: Machine) -> None:
    said = machine.schedctl("doctor", "-o", "json")

    found = {each["id"]: each for each in said.answer["checks"]}
    assert said.code == 1
    assert found["kernel.sched_ext"]["status"] == "fail"
    assert found["kernel.config"]["detail"] == "not set: CONFIG_SCHED_CLASS_EXT"
    assert found["runtime.any"]["status"] == "pass"
