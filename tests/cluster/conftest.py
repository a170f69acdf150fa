"""One control plane for the whole tier; a test that breaks parts of one starts its own."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

import pytest

from rig.cluster import controlplane, fakenodes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import FakeNodes
from rig.operator import manager
from rig.operator.manager import Manager


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks at the audit log of all tests comes after them."""
    items.sort(key=lambda item: item.path.name == "test_sked_permissions.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of each program's log with a test that failed."""
    report = yield
    if report.failed:
        for plane in _control_planes(item):
            report.sections += [(f"end of {part.log}", part.tail()) for part in plane.components]
        report.sections += [(f"end of {each.process.log}", each.process.tail(40)) for each in _managers(item)]
    return report


def _managers(item: pytest.Item) -> list[Manager]:
    values: dict[str, object] = getattr(item, "funcargs", {})
    return [value for value in values.values() if isinstance(value, Manager)]


def _control_planes(item: pytest.Item) -> list[ControlPlane]:
    values: dict[str, object] = getattr(item, "funcargs", {})
    return [value for value in values.values() if isinstance(value, ControlPlane)]


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
    # at once: while the namespace ends, which takes its time, others would still be told of these as rivals,
    # and that they are gone would be written into statuses while another test counts writes
    manager.delete_schedexts(cluster, name)
    cluster.client.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def fake_nodes(cluster: ControlPlane) -> Iterator[FakeNodes]:
    """Twenty fake nodes of the shared control plane."""
    with fakenodes.running(cluster, 20) as nodes:
        yield nodes
