"""Tests in this folder run inside a guest (rig.guestpytest); the mark `kernel` says with which kernels."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def kernel_kind(request: pytest.FixtureRequest) -> str:
    """The kind of kernel this copy of the test runs on."""
    kind: str = request.param
    return kind
