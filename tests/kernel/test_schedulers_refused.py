"""On a kernel without sched_ext no scheduler attaches: what the other tests see is the kernel's doing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.base import processes
from rig.guest import schedulers

pytestmark = pytest.mark.kernel("none")


def prepare_on_host() -> None:
    schedulers.built()


def test_the_fifo_cannot_load_and_says_so() -> None:
    done = processes.run([schedulers.binary("fifo")], timeout_s=60, check=False)

    assert done.returncode == 1
    assert "load failed" in done.stderr
    assert not Path("/sys/kernel/sched_ext").exists()
