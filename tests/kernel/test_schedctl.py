"""`schedctl` on a machine with Podman: what it says is what the kernel shows to others.

Every call starts an interpreter, which takes seconds in an emulated guest: the module is `full`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rig import images, polling, schedext
from rig.podman import Podman
from rig.schedext import Launcher

pytestmark = [pytest.mark.kernel("7"), pytest.mark.full]

TIMEOUT_S = 120
HOST = "registry.rig.test/rig"


def prepare_on_host() -> None:
    for name in ("fifo", "alias", "bad_init", "slow"):
        images.scheduler(name)
    images.foreign_scheduler()


@dataclass(frozen=True)
class Schedctl:
    """The command, with a Podman and images from layouts: this guest has no network."""

    podman: Podman
    home: Path

    def argv(self, layout: Path, *words: str) -> list[str]:
        program = str(Path(sys.executable).with_name("schedctl"))
        return [program, "--socket", str(self.podman.socket), "--layout", str(layout), *words]

    def __call__(self, *words: str, layout: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(layout or images.scheduler("fifo"), *words),
            env={**os.environ, "XDG_DATA_HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def run(self, name: str, *words: str, layout: Path | None = None) -> subprocess.CompletedProcess[str]:
        image = layout or images.scheduler(name)
        reference = f"{HOST}/{name}@{images.digest(image)}"
        return self("run", reference, "--allow-unsigned", "--timeout=60", *words, layout=image)

    def status(self) -> tuple[int, dict[str, Any]]:
        done = self("status", "-o", "json")
        return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """The guest's own Podman, as a machine would run it."""
    with Podman(tmp_path_factory.mktemp("podman"), root=Path("/"), isolated=False) as podman:
        yield podman


@pytest.fixture
def schedctl(podman: Podman, tmp_path: Path) -> Iterator[Schedctl]:
    """The command; afterwards Podman has no container, and the kernel its own scheduler."""
    yield Schedctl(podman, tmp_path)
    podman.run("rm", "--all", "--force", "--time=0")
    schedext.await_disabled(timeout_s=TIMEOUT_S)


def ids(podman: Podman) -> list[str]:
    return podman.run("ps", "--all", "--quiet", "--no-trunc").stdout.split()


def test_a_scheduler_is_run_shown_and_stopped_and_the_kernel_agrees(schedctl: Schedctl) -> None:
    ran = schedctl.run("fifo", "-o", "json")

    assert (ran.returncode, ran.stderr.count("Error")) == (0, 0), ran.stderr
    assert (schedext.state(), schedext.ops()) == ("enabled", "rig_fifo")
    said = json.loads(ran.stdout)
    assert (said["name"], said["ops"], said["confirmed"]) == ("fifo", "rig_fifo", True)
    assert said["enable_seq"] == schedext.enable_seq()
    assert "nobody was asked who signed" in ran.stderr

    code, status = schedctl.status()
    assert (code, status["status"]) == (0, "running")
    assert (status["owner"]["kind"], status["kernel"]["ops"]) == ("managed", "rig_fifo")
    assert status["scheduler"]["container_id"] == said["id"] == ids(schedctl.podman)[0]

    pid = schedctl.podman.inspect("fifo")["State"]["Pid"]
    assert schedctl("ps").stdout.splitlines() == [
        "PID  ID            NAME",
        f"{pid}  {said['id'][:12]}  fifo",
    ]
    wrote = schedctl("logs")
    assert schedctl.podman.run("logs", "fifo").stdout == wrote.stdout != ""

    again = schedctl.run("fifo")
    assert (again.returncode, again.stdout) == (1, "")
    assert "container fifo runs already" in again.stderr

    stopped = schedctl("stop")
    assert (stopped.returncode, schedext.state(), schedext.ops()) == (0, "disabled", None), stopped.stderr
    assert stopped.stdout == "stopped fifo; the kernel runs its own scheduler\n"
    assert ids(schedctl.podman) == []
    assert schedctl.status()[1]["status"] == "idle"


def test_a_scheduler_that_the_kernel_refuses_is_a_failure_with_both_reasons_and_leaves_nothing(
    schedctl: Schedctl,
) -> None:
    failed = schedctl.run("bad_init")

    assert (failed.returncode, failed.stdout) == (1, "")
    assert schedext.state() == "disabled"
    assert ids(schedctl.podman) == []
    assert "bad_init was not attached: its program ended (exit code 1)" in failed.stderr
    assert "the kernel says: rig_bad_init: " in failed.stderr
    assert "its last words: " in failed.stderr
    assert "next: " in failed.stderr


def test_a_stranger_keeps_the_kernel_and_is_named(schedctl: Schedctl, launcher: Launcher) -> None:
    stranger = launcher.attach("alias")

    refused, status = schedctl.run("fifo"), schedctl.status()
    forced = schedctl.run("fifo", "--force")

    assert (refused.returncode, forced.returncode, status[0]) == (1, 1, 2)
    assert f"end that one first: `kill {stranger.pid}`" in refused.stderr
    assert (status[1]["status"], status[1]["owner"]["pid"]) == ("orphaned-kernel-state", stranger.pid)
    assert "fifo was not attached: its program ended" in forced.stderr
    assert (schedext.ops(), ids(schedctl.podman)) == ("totally_different", [])


def test_an_ops_name_unlike_the_images_is_running_and_not_a_mismatch(schedctl: Schedctl) -> None:
    ran = schedctl.run("alias")

    assert (ran.returncode, ran.stdout) == (0, "the kernel runs totally_different, of container alias\n")
    assert schedctl.status()[1]["status"] == "running"


def test_a_killed_run_leaves_what_the_next_one_sees_and_removes(schedctl: Schedctl) -> None:
    image = images.scheduler("slow")
    reference = f"{HOST}/slow@{images.digest(image)}"
    run = subprocess.Popen(
        schedctl.argv(image, "run", reference, "--allow-unsigned", "--", "--load-delay", "600")
    )
    polling.until(lambda: ids(schedctl.podman) != [], "the container is there", timeout_s=TIMEOUT_S)
    polling.until(
        lambda: schedctl.status()[1]["status"] == "managed-detached", "it runs", timeout_s=TIMEOUT_S
    )

    run.kill()
    run.wait(TIMEOUT_S)

    assert schedctl.status()[0] == 2
    assert schedctl("stop").returncode == 0
    assert ids(schedctl.podman) == []


def test_an_image_for_other_machines_is_refused_before_it_is_loaded(schedctl: Schedctl) -> None:
    refused = schedctl.run("fifo", layout=images.foreign_scheduler())

    assert refused.returncode == 1
    assert "is not for this machine" in refused.stderr
    assert "loading" not in refused.stderr


def test_attached_its_output_and_exit_code_are_those_of_the_program(schedctl: Schedctl) -> None:
    ended = schedctl.run("bad_init", "--attach")

    assert ended.returncode == 1
    assert "failed" in ended.stdout + ended.stderr
    assert ids(schedctl.podman) == []


def test_without_a_signature_nothing_runs(schedctl: Schedctl) -> None:
    image = images.scheduler("fifo")

    refused = schedctl("run", f"{HOST}/fifo@{images.digest(image)}", layout=image)

    assert refused.returncode == 1
    assert "(step 3)" in refused.stderr
    assert schedext.state() == "disabled"
    assert ids(schedctl.podman) == []


def test_the_doctor_finds_this_machine_well(schedctl: Schedctl) -> None:
    said = schedctl("doctor", "-o", "json")

    assert json.loads(said.stdout)["summary"]["blocking"] == 0, said.stdout
    assert said.returncode == 0
