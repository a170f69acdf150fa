"""A manager whose API server, or whose CRD, goes and comes back: it lives on, says so, and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.base import polling
from rig.cluster import controlplane
from rig.cluster.controlplane import ControlPlane
from rig.operator import manager
from rig.operator.manager import Manager, SchedExts

pytestmark = pytest.mark.full  # a control plane of its own
KUBELET_WAITS_S = 10  # terminationGracePeriodSeconds of the manifests
_COLLECTED_S = 90  # the garbage collector looks for new kinds of owners every 30 s


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


def test_a_restarted_api_server_is_found_again(fragile: ControlPlane) -> None:
    """By one without a lease: with one it ends, and is started anew, if the server is slow to come back."""
    schedexts = SchedExts(fragile, fragile.create_namespace())
    with manager.running(fragile, "lasting") as sked:
        schedexts.create("before")
        schedexts.await_reason("Deployed", "NoNodes", "before")

        fragile.apiserver.kill()
        assert sked.probe("/healthz") == (200, "ok\n")
        fragile.apiserver.start()

        schedexts.create("after")
        schedexts.await_reason("Deployed", "NoNodes", "after", timeout_s=60)
        assert sked.process.exit_code() is None
        assert sked.probe("/healthz") == (200, "ok\n")


def test_a_holder_of_the_lease_ends_when_it_cannot_renew_it(fragile: ControlPlane, survivor: Manager) -> None:
    fragile.apiserver.freeze()
    try:
        polling.until(lambda: survivor.process.exit_code() is not None, "it ends", timeout_s=30)
    finally:
        fragile.apiserver.thaw()

    assert survivor.process.exit_code() == 1
    assert "was not renewed for 10 s" in survivor.says("manager_failed")[0]["reason"]


def test_readers_of_metrics_are_told_that_the_api_server_cannot_be_asked_about_them(
    fragile: ControlPlane,
) -> None:
    token = fragile.token(fragile.create_namespace())
    with manager.running(fragile, "asked") as sked:
        sked.await_word("metrics_served")
        fragile.apiserver.kill()
        try:
            code, words = sked.scrape(token)
        finally:
            fragile.apiserver.start()

        assert (code, words) == (503, "the API server cannot be asked who you are: try again later\n")
        assert len(sked.says("reader_not_judged")) == 1
        polling.until(lambda: sked.scrape(token)[0] == 403, "the reader is known, but may not")


def test_a_crd_that_is_deleted_and_comes_back_is_served_again(fragile: ControlPlane) -> None:
    schedexts = SchedExts(fragile, fragile.create_namespace())
    with manager.running(fragile, "patient") as sked:
        schedexts.create("before")
        schedexts.await_reason("Deployed", "NoNodes", "before")

        fragile.kubectl("delete", "crd", "schedexts.sked.schedkit.io")
        gone = "the DaemonSet of a SchedExt that is gone is collected"
        polling.until(lambda: schedexts.daemon_set("before") is None, gone, timeout_s=_COLLECTED_S)
        manager.install_crd(fragile)
        schedexts.create("after")

        schedexts.await_reason("Deployed", "NoNodes", "after", timeout_s=60)
        assert schedexts.daemon_set("before") is None
        assert sked.process.exit_code() is None
        assert sked.probe("/healthz") == (200, "ok\n")
