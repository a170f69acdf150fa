"""A node that loses its power: its report is of another boot, and what comes back is proved anew."""

from __future__ import annotations

import pytest

from .sites import NAME, Stage

# everything is pulled and started again
pytestmark = [pytest.mark.full, pytest.mark.timeout(1500), pytest.mark.usefixtures("sked")]


def test_a_node_that_reboots_comes_back_without_an_eject(stage: Stage) -> None:
    stage.attach("fifo")
    boot = stage.report()["kernel"]["bootID"]

    stage.site.node.reboot()

    stage.site.until(lambda: stage.report()["kernel"]["bootID"] != boot, "the new boot is reported")
    stage.await_ops("fifo")
    assert stage.schedexts.await_reason("Ready", "Attached", NAME, timeout_s=240)["status"] == "True"
    assert stage.owners() == stage.uids()
    assert "Ejected" not in stage.told()
