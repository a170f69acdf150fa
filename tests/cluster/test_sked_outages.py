"""A manager whose API server goes and comes back: it lives on, says so, and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig import controlplane, manager
from rig.controlplane import ControlPlane
from rig.manager import Manager, SchedExts

pytestmark = pytest.mark.full  # a control plane of its own
KUBELET_WAITS_S = 10  # terminationGracePeriodSeconds of the manifests


@pytest.fixture(scope="module")
def fragile() -> Iterator[ControlPlane]:
    """A control plane that may be broken."""
    with controlplane.running("fragile") as plane:
        manager.install_crd(plane)
        yield plane


@pytest.fixture
def survivor(fragile: ControlPlane) -> Iterator[Manager]:
    with manager.running(fragile, "survivor", "--leader-elect") as running:
        running.await_word("lease_acquired")
        yield running


def test_a_manager_told_to_stop_while_its_api_server_hangs_is_gone_before_the_kubelet_would_kill_it(
    fragile: ControlPlane, survivor: Manager
) -> None:
    schedexts = SchedExts(fragile, fragile.create_namespace())
    schedexts.create("idle")
    schedexts.await_reason("Deployed", "NoNodes", "idle")

    fragile.apiserver.freeze()
    try:
        assert survivor.terminate(within_s=KUBELET_WAITS_S) == 0
    finally:
        fragile.apiserver.thaw()
    assert survivor.says("lease_not_released")


def test_a_restarted_api_server_is_found_again(fragile: ControlPlane, survivor: Manager) -> None:
    schedexts = SchedExts(fragile, fragile.create_namespace())
    schedexts.create("before")
    schedexts.await_reason("Deployed", "NoNodes", "before")

    fragile.apiserver.kill()
    assert survivor.probe("/healthz") == (200, "ok\n")
    fragile.apiserver.start()

    schedexts.create("after")
    schedexts.await_reason("Deployed", "NoNodes", "after", timeout_s=60)
    assert survivor.process.exit_code() is None
    assert survivor.probe("/healthz") == (200, "ok\n")
