"""Tests in this folder run inside a guest (rig.session.guestpytest); the mark `kernel` says with which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import polling
from rig.guest import schedext
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman
from schedkit.kernel import structops


@pytest.fixture(scope="module", autouse=True)
def kernel_kind(request: pytest.FixtureRequest) -> str:
    """The kind of kernel this copy of the test runs on."""
    kind: str = request.param
    return kind


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[schedext.Launcher]:
    """Starts the rig's schedulers; afterwards none is left, neither as a process nor in the kernel."""
    launcher = schedext.Launcher(tmp_path)
    yield launcher
    launcher.clear()


@pytest.fixture
def no_old_registrations() -> Iterator[None]:
    """Maps that stay registered when an orphan is ejected are removed, also those of other modules."""
    remove_registrations()
    yield
    remove_registrations()


def remove_registrations() -> None:
    for scheduler in structops.read(Path("/")).schedulers:
        if scheduler.is_registered:
            structops.unregister(scheduler.map_id)
    polling.until(
        lambda: structops.read(Path("/")).schedulers == (), "the kernel has forgotten all schedulers"
    )


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """The guest's own Podman, as a machine would run it."""
    with Podman(tmp_path_factory.mktemp("podman"), root=Path("/"), isolated=False) as podman:
        yield podman


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """The guest's own containerd, as a machine would run it."""
    with Containerd(tmp_path_factory.mktemp("containerd"), root=Path("/"), isolated=False) as containerd:
        yield containerd
