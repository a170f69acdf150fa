"""Podman and containerd are real: they pull, run, stop, fail when they should, and leave nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rig import daemons, images, polling
from rig.certificates import Authority
from rig.containerd import Containerd
from rig.errors import RigError
from rig.podman import Podman
from rig.registry import Kind, Registry

_WAITS_FOR_TERM = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done"
_REPOSITORY = "rig/busybox"
_SLEEPER = "sleeper-of-the-contract-tests"  # also the name of its control group


@pytest.fixture(scope="module")
def image(plain_registry: Registry, busybox: Path) -> str:
    """A reference by digest to an image whose entry point is busybox."""
    digest = plain_registry.client.push(busybox, _REPOSITORY, "v1")
    return f"{plain_registry.host}/{_REPOSITORY}@{digest}"


@pytest.fixture
def broken_registry(busybox: Path, tmp_path: Path, authority: Authority) -> Registry:
    """A registry that had the image, and is off."""
    with Registry(Kind.FALLBACK_TAGS, tmp_path / "registry", authority) as registry:
        registry.client.push(busybox, _REPOSITORY, "v1")
    return registry


class TestPodman:
    def test_it_pulls_by_digest_what_the_registry_has(
        self, podman: Podman, image: str, busybox: Path
    ) -> None:
        podman.run("pull", image)

        [found] = json.loads(podman.run("image", "inspect", image).stdout)

        assert found["Digest"] == images.digest(busybox)

    def test_it_cannot_pull_when_the_registry_is_off(self, podman: Podman, broken_registry: Registry) -> None:
        podman.trust(broken_registry)

        with pytest.raises(RigError, match="connection refused"):
            podman.run("pull", f"{broken_registry.host}/{_REPOSITORY}:v1")

    def test_it_hands_on_output_and_exit_code_of_a_container(self, podman: Podman, image: str) -> None:
        done = podman.run("run", "--rm", image, "sh", "-c", "echo here; exit 7", check=False)

        assert (done.stdout, done.returncode) == ("here\n", 7)

    def test_it_runs_a_privileged_container_and_stops_it_with_a_signal(
        self, podman: Podman, image: str
    ) -> None:
        options = ["--detach", "--name", "stoppable", "--privileged", "--pid=host"]
        podman.run("run", *options, image, "sh", "-c", _WAITS_FOR_TERM)
        polling.until(lambda: "ready" in podman.run("logs", "stoppable").stdout, "the container is ready")
        assert podman.inspect("stoppable")["State"]["Status"] == "running"

        podman.run("stop", "--time=30", "stoppable")

        state = podman.inspect("stoppable")["State"]
        assert (state["Status"], state["ExitCode"]) == ("exited", 3)

    def test_once_stopped_it_answers_nobody_and_no_process_is_left(
        self, tmp_path: Path, plain_registry: Registry, image: str
    ) -> None:
        own = Podman(tmp_path)
        own.trust(plain_registry)
        with own:
            container = own.run("run", "--detach", image, "sleep", "1000").stdout.strip()
            living = own.pids()
            assert {"podman", "conmon", "busybox"} <= _programs(living)
            assert daemons.cgroups(f"libpod-{container}")

        with pytest.raises(RigError, match="unable to connect to Podman socket"):
            own.run("ps")
        _assert_nothing_is_left(living, tmp_path)
        assert daemons.cgroups(f"libpod-{container}") == []


class TestContainerd:
    def test_it_pulls_by_digest_what_the_registry_has(self, containerd: Containerd, image: str) -> None:
        containerd.pull(image)

        assert image in containerd.run("images", "list", "--quiet").stdout.splitlines()

    def test_it_cannot_pull_when_the_registry_is_off(
        self, containerd: Containerd, broken_registry: Registry
    ) -> None:
        containerd.trust(broken_registry)

        with pytest.raises(RigError, match="connection refused"):
            containerd.pull(f"{broken_registry.host}/{_REPOSITORY}:v1")

    def test_it_hands_on_output_and_exit_code_of_a_container(
        self, containerd: Containerd, image: str
    ) -> None:
        containerd.pull(image)

        done = containerd.run("run", "--rm", image, "brief", *_shell("echo here; exit 7"), check=False)

        assert (done.stdout, done.returncode) == ("here\n", 7)

    def test_it_runs_a_privileged_container_and_stops_it_with_a_signal(
        self, containerd: Containerd, image: str
    ) -> None:
        containerd.pull(image)
        containerd.run("run", "--detach", "--privileged", image, "stoppable", *_shell(_WAITS_FOR_TERM))
        assert _task_status(containerd, "stoppable") == "RUNNING"

        containerd.run("tasks", "kill", "--signal", "SIGTERM", "stoppable")

        polling.until(lambda: _task_status(containerd, "stoppable") == "STOPPED", "the task has stopped")
        ended = containerd.run("tasks", "delete", "stoppable", check=False)
        assert "exit code 3" in ended.stderr

    def test_once_stopped_it_answers_nobody_and_no_process_is_left(
        self, tmp_path: Path, plain_registry: Registry, image: str
    ) -> None:
        own = Containerd(tmp_path)
        own.trust(plain_registry)
        with own:
            own.pull(image)
            own.run("run", "--detach", image, _SLEEPER, "/usr/bin/busybox", "sleep", "1000")
            living = own.pids()
            assert {"containerd", "containerd-shim", "busybox"} <= _programs(living)
            assert daemons.cgroups(_SLEEPER)

        with pytest.raises(RigError, match="failed to dial"):
            own.run("tasks", "list")
        _assert_nothing_is_left(living, tmp_path)
        assert daemons.cgroups(_SLEEPER) == []


_STARTS_AND_WAITS = """
import sys
from pathlib import Path
from rig.{module} import {runtime}
runtime = {runtime}(Path(sys.argv[1]))
runtime.start()
print(*runtime.pids(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("module", "runtime"), [("podman", "Podman"), ("containerd", "Containerd")])
def test_a_runtime_dies_with_the_test_run_that_started_it(module: str, runtime: str, tmp_path: Path) -> None:
    script = _STARTS_AND_WAITS.format(module=module, runtime=runtime)
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    with parent:
        assert parent.stdout is not None
        living = {int(pid) for pid in parent.stdout.readline().split()}
        assert module in _programs(living)

        parent.send_signal(signal.SIGKILL)

    polling.until(lambda: not _programs(living), "all processes of the runtime have ended")
    _assert_nothing_is_left(living, tmp_path)


def _shell(script: str) -> list[str]:
    return ["/usr/bin/busybox", "sh", "-c", script]


def _task_status(containerd: Containerd, name: str) -> str | None:
    rows = [line.split() for line in containerd.run("tasks", "list").stdout.splitlines()]
    return next((row[2] for row in rows if row[0] == name), None)


def _programs(pids: set[int]) -> set[str]:
    """The names of those that still live; the kernel cuts names off after 15 letters."""
    files = [Path(f"/proc/{pid}/comm") for pid in pids]
    return {file.read_text().strip() for file in files if file.exists()}


def _assert_nothing_is_left(pids: set[int], folder: Path) -> None:
    """No process of the runtime, and no mount."""
    assert not _programs(pids)
    assert str(folder) not in Path("/proc/self/mounts").read_text()
