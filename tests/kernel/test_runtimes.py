"""Podman and containerd in a guest: a privileged container attaches a scheduler and takes it along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import polling
from rig.base.errors import RigError
from rig.guest import schedext
from rig.runtimes import image_contents, images
from rig.runtimes.containerd import Containerd
from rig.runtimes.image_contents import UNSIGNED
from rig.runtimes.podman import Podman
from schedkit.kernel.observation import observe
from schedkit.model.host.containers import ContainerState
from schedkit.model.host.owners import OwnerKind
from schedkit.model.host.status_words import Status, judge
from schedkit.runtimes.containerd.client import Containerd as ContainerdRuntime
from schedkit.runtimes.podman.client import Podman as PodmanRuntime
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import LeastPrivilege, Privileged, Spec

pytestmark = pytest.mark.kernel("7")

_IMAGE = "registry.rig.test/rig/fifo:v1"
_ATTACH_TIMEOUT_S = 120


def prepare_on_host() -> None:
    images.scheduler("fifo")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The FIFO's image as one file: this guest has no network to pull it over."""
    file = tmp_path_factory.mktemp("image") / "fifo.tar"
    images.write_archive(images.scheduler("fifo"), _IMAGE, file)
    return file


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[Podman]:
    """The guest's own Podman, as a machine would run it."""
    with Podman(tmp_path_factory.mktemp("podman"), root=Path("/"), isolated=False) as podman:
        podman.run("load", "--input", str(archive))
        yield podman


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[Containerd]:
    """The guest's own containerd, as a machine would run it."""
    with Containerd(tmp_path_factory.mktemp("containerd"), root=Path("/"), isolated=False) as containerd:
        containerd.run("images", "import", str(archive))
        yield containerd


def test_a_scheduler_runs_as_long_as_its_podman_container(podman: Podman) -> None:
    podman.run("run", "--detach", "--name", "fifo", "--privileged", "--pid=host", _IMAGE)
    _await_fifo()
    assert podman.inspect("fifo")["State"]["Status"] == "running"

    podman.run("stop", "--time=60", "fifo")

    assert schedext.state() == "disabled"
    assert podman.inspect("fifo")["State"]["ExitCode"] == 0


def test_without_privileges_podman_runs_no_scheduler(podman: Podman) -> None:
    done = podman.run("run", "--rm", _IMAGE, check=False)

    assert done.returncode == 1
    assert "load failed: Operation not permitted" in done.stderr
    assert schedext.state() == "disabled"


def test_a_scheduler_runs_as_long_as_its_containerd_task(containerd: Containerd) -> None:
    containerd.run("run", "--detach", "--privileged", _IMAGE, "fifo")
    _await_fifo()

    containerd.run("tasks", "kill", "--signal", "SIGTERM", "fifo")

    schedext.await_disabled(timeout_s=_ATTACH_TIMEOUT_S)
    polling.until(lambda: "STOPPED" in containerd.run("tasks", "list").stdout, "the task has stopped")
    containerd.run("tasks", "delete", "fifo")  # fails for any exit code but 0


def test_without_privileges_containerd_runs_no_scheduler(containerd: Containerd) -> None:
    with pytest.raises(RigError, match="load failed: Operation not permitted"):
        containerd.run("run", "--rm", _IMAGE, "powerless")

    assert schedext.state() == "disabled"


@pytest.fixture(params=["podman", "containerd"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Runtime]:
    """Each driver in its turn, and the port to its runtime."""
    service: Podman | Containerd = request.getfixturevalue(request.param)
    if isinstance(service, Podman):
        return "podman", PodmanRuntime(service.socket)
    return "containerd", ContainerdRuntime(service.socket, logs=tmp_path / "logs")


@pytest.mark.parametrize(
    "privileges", [Privileged(), LeastPrivilege()], ids=["privileged", "least privilege"]
)
def test_a_scheduler_that_we_run_is_ours_and_goes_with_its_container(
    runtime: tuple[str, Runtime], privileges: Privileged | LeastPrivilege
) -> None:
    driver, port = runtime
    image = image_contents.content(images.scheduler("fifo"), "registry.rig.test/rig/fifo")
    port.load(image)
    made = port.create(
        Spec(admission=UNSIGNED, name="scx-ours", image=image.reference, privileges=privileges)
    )
    try:
        port.start("scx-ours")
        _await_fifo()
        seen = observe(Path("/"))

        by_control_group = made._replace(state=ContainerState.RUNNING, pid=None)
        assert judge(seen._replace(containers=(by_control_group,))).status is Status.RUNNING
        assert judge(seen._replace(containers=())).owner.kind is OwnerKind.FOREIGN
        assert judge(seen._replace(containers=(), silent=(driver,))).owner.kind is OwnerKind.UNKNOWN
        assert str(port.stop("scx-ours", grace_s=60)) != "killed by SIGKILL"
        assert schedext.state() == "disabled"
    finally:
        port.remove("scx-ours")


def _await_fifo() -> None:
    polling.until(
        lambda: schedext.state() == "enabled" and schedext.ops() == "rig_fifo",
        "the FIFO is attached",
        timeout_s=_ATTACH_TIMEOUT_S,
    )
