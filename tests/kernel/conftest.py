"""Tests in this folder run inside a guest (rig.guestpytest); the mark `kernel` says with which kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig import schedext


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
