"""What `make catalog-measure` finds out, on our own FIFO: the same packaging, attempts and conclusions."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.base import cache
from rig.build import recipes
from rig.build.measurements import Circumstances, Confinement, measure
from rig.build.trials import Attempts, Limits, unpack
from rig.guest import schedext, schedulers
from rig.runtimes import images
from schedkit.model.catalog import Needs

pytestmark = pytest.mark.kernel("7")

ABOUT = Circumstances("1.0.0", "this one", "a guest", "2026-01-31")
# it neither serves statistics nor writes anything: there is nothing to wait for
LIMITS = Limits(attach_s=120, settle_s=0.5)


def layout() -> Path:
    """The FIFO's image as `schedctl package` makes it; on the host, where Python is quick."""

    def fill(folder: Path) -> None:
        described = images.scheduler_labels("fifo")
        recipes.pack(schedulers.binary("fifo"), "registry.rig.test/rig/fifo:1.0.0", folder, described)

    return cache.entry("images", f"packaged-{schedulers.built().name}", fill)


prepare_on_host = layout


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(unpack(layout(), tmp_path / "root"), tmp_path, LIMITS)


def test_the_fifo_needs_two_capabilities_and_nothing_else(attempts: Attempts) -> None:
    trial = attempts(Confinement(("BPF", "PERFMON"), host_pids=False, boot_config=False, writable_run=False))

    assert (trial.works, trial.ops) == (True, "rig_fifo")
    assert (trial.exit_code, trial.reason) == (0, "unregistered from user space")
    assert (schedext.state(), schedext.ops()) == ("disabled", None)


@pytest.mark.full
def test_a_measurement_finds_that_out(attempts: Attempts) -> None:
    found = measure(attempts, ABOUT)

    assert found.needs == Needs(
        host_pid=False, boot_config=False, writable_run=False, capabilities=("BPF", "PERFMON")
    )
    assert (found.ops_name, found.stats, found.measured.exit_code) == ("rig_fifo", False, 0)
    refused = found.measured.without["with the capabilities BPF and process ids of its own"]
    assert refused.startswith("it was not attached, and ended with 1")
    assert "Operation not permitted" in refused
