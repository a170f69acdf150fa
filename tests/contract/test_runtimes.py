"""Podman and containerd are real: they pull, run, stop, fail when they should, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rig.base import polling
from rig.base.certificates import Authority
from rig.base.errors import RigError
from rig.registries.registry import Kind, Registry
from rig.runtimes import daemons, images
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman

_WAITS_FOR_TERM = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done"
_REPOSITORY = "rig/busybox"
_SLEEPER = "sleeper-of-the-contract-tests"  # also the name of its control group


@pytest.fixture(scope="module")
def image(any_registry: Registry, busybox: Path) -> str:
    """A reference by digest to an image whose entry point is busybox."""
    digest = any_registry.client.push(busybox, _REPOSITORY, "v1")
    return f"{any_registry.host}/{_REPOSITORY}@{digest}"


@pytest.fixture
def broken_registry(busybox: Path, tmp_path: Path, authority: Authority) -> Registry:
    """A registry that had the image, and is off."""
    with Registry(Kind.FALLBACK_TAGS, tmp_path / "registry", authority) as registry:
        registry.client.push(busybox, _REPOSITORY, "v1")
    return registry


@pytest.fixture
def plain_image(plain_registry: Registry, busybox: Path) -> str:
    """The same image in a registry without TLS."""
    digest = plain_registry.client.push(busybox, _REPOSITORY, "v1")
    return f"{plain_registry.host}/{_REPOSITORY}@{digest}"


@pytest.fixture
def foreign_image(any_registry: Registry) -> str:
    """An image for another architecture alone."""
    digest = any_registry.client.push(images.foreign_scheduler(), "rig/foreign", "v1")
    return f"{any_registry.host}/rig/foreign@{digest}"


@pytest.fixture
def multi_platform_image(any_registry: Registry) -> str:
    """An image for this architecture and another."""
    digest = any_registry.client.push(images.multi_platform_scheduler(), "rig/multi", "v1")
    return f"{any_registry.host}/rig/multi@{digest}"


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

    def test_it_pulls_without_tls_only_from_a_registry_it_was_told_about(
        self, podman: Podman, plain_registry: Registry, plain_image: str, tmp_path: Path
    ) -> None:
        with pytest.raises(RigError, match="server gave HTTP response to HTTPS client"):
            podman.run("pull", plain_image)

        told = Podman(tmp_path)
        told.trust(plain_registry)
        with told:
            told.run("pull", plain_image)

    def test_it_takes_its_own_platform_of_several(self, podman: Podman, multi_platform_image: str) -> None:
        podman.run("pull", multi_platform_image)

        [found] = json.loads(podman.run("image", "inspect", multi_platform_image).stdout)
        assert found["Architecture"] == "amd64"

    def test_it_cannot_run_a_program_of_another_platform(self, podman: Podman, foreign_image: str) -> None:
        with pytest.raises(RigError, match=r"[Ee]xec format error"):
            podman.run("run", "--rm", foreign_image)

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
        self, tmp_path: Path, any_registry: Registry, image: str
    ) -> None:
        own = Podman(tmp_path)
        own.trust(any_registry)
        with own:
            container = own.run("run", "--detach", image, "sleep", "1000").stdout.strip()
            _await_programs(own, {"podman", "conmon", "busybox"})
            living = own.pids()
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

    def test_it_pulls_without_tls_from_a_registry_it_was_told_about(
        self, containerd: Containerd, plain_registry: Registry, plain_image: str
    ) -> None:
        containerd.trust(plain_registry)

        containerd.pull(plain_image)

        assert plain_image in containerd.run("images", "list", "--quiet").stdout.splitlines()

    def test_it_takes_its_own_platform_of_several(
        self, containerd: Containerd, multi_platform_image: str
    ) -> None:
        pulled = containerd.pull(multi_platform_image)

        assert "unpacking linux/amd64" in pulled.stdout + pulled.stderr

    def test_it_cannot_run_a_program_of_another_platform(
        self, containerd: Containerd, foreign_image: str
    ) -> None:
        containerd.pull(foreign_image)

        with pytest.raises(RigError, match=r"[Ee]xec format error"):
            containerd.run("run", "--rm", foreign_image, "foreign")

    def test_it_hands_on_output_and_exit_code_of_a_container(
        self, containerd: Containerd, image: str
    ) -> None:
        containerd.pull(image)

        done = containerd.run("run", "--rm", image, "brief", *_shell("echo here; exit 7"), check=False)

        assert (done.stdout, done.returncode) == ("here\n", 7)

    def test_it_runs_a_privileged_container_and_stops_it_with_a_signal(
        self, containerd: Containerd, image: str, tmp_path: Path
    ) -> None:
        containerd.pull(image)
        log = tmp_path / "log"
        options = ["--detach", "--privileged", "--log-uri", f"file://{log}"]
        containerd.run("run", *options, image, "stoppable", *_shell(_WAITS_FOR_TERM))
        polling.until(lambda: log.exists() and "ready" in log.read_text(), "the container is ready")
        assert _task_status(containerd, "stoppable") == "RUNNING"

        containerd.run("tasks", "kill", "--signal", "SIGTERM", "stoppable")

        polling.until(lambda: _task_status(containerd, "stoppable") == "STOPPED", "the task has stopped")
        ended = containerd.run("tasks", "delete", "stoppable", check=False)
        assert "exit code 3" in ended.stderr

    def test_once_stopped_it_answers_nobody_and_no_process_is_left(
        self, tmp_path: Path, any_registry: Registry, image: str
    ) -> None:
        own = Containerd(tmp_path)
        own.trust(any_registry)
        with own:
            own.pull(image)
            own.run("run", "--detach", image, _SLEEPER, "/usr/bin/busybox", "sleep", "1000")
            _await_programs(own, {"containerd", "containerd-shim", "busybox"})
            living = own.pids()
            assert daemons.cgroups(_SLEEPER)

        with pytest.raises(RigError, match="failed to dial"):
            own.run("tasks", "list")
        _assert_nothing_is_left(living, tmp_path)
        assert daemons.cgroups(_SLEEPER) == []


_STARTS_AND_WAITS = """
import sys
from pathlib import Path
from rig.runtimes.{module} import {runtime}
runtime = {runtime}(Path(sys.argv[1]))
runtime.start()
print(*runtime.pids(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("module", "runtime"), [("podman", "Podman"), ("containerd", "Containerd")])
def test_a_runtime_dies_with_the_test_run_that_started_it(
    module: str, runtime: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(module)  # where there can be none, this says why
    script = _STARTS_AND_WAITS.format(module=module, runtime=runtime)
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
    )
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


def _await_programs(runtime: Podman | Containerd, names: set[str]) -> None:
    """A container's process is still called after the runtime for a moment."""
    polling.until(lambda: names <= _programs(runtime.pids()), f"{', '.join(sorted(names))} run")


def _programs(pids: set[int]) -> set[str]:
    """The names of those that still live; the kernel cuts names off after 15 letters."""
    names = set()
    for pid in pids:
        with suppress(OSError):  # it is gone, or is just going
            names.add(Path(f"/proc/{pid}/comm").read_text().strip())
    return names


def _assert_nothing_is_left(pids: set[int], folder: Path) -> None:
    """No process of the runtime, and no mount."""
    assert not _programs(pids)
    assert str(folder) not in Path("/proc/self/mounts").read_text()
