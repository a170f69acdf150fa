"""One control plane for the whole tier; a test that breaks parts of one starts its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from rig import controlplane, fakenodes
from rig.controlplane import ControlPlane
from rig.fakenodes import FakeNodes


@pytest.fixture(scope="session")
def cluster() -> Iterator[ControlPlane]:
    """The control plane that all tests share: leave its programs alone."""
    with controlplane.running("cluster", fake_nodes=True) as plane:
        yield plane


@pytest.fixture
def namespace(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace that no other test sees, named after the test."""
    words = re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = cluster.create_namespace(words[:40].strip("-"))
    yield name
    cluster.client.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def fake_nodes(cluster: ControlPlane) -> Iterator[FakeNodes]:
    """Twenty fake nodes of the shared control plane."""
    with fakenodes.running(cluster, 20) as nodes:
        yield nodes
