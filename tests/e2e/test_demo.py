"""`make demo` on a real node: what it tells is what the node's kernel said."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from rig.base import cache, processes
from rig.guest.schedulers import catalog

ROOT = Path(__file__).parents[2]
LIMIT_S = 1500
_SOON_S = 15


@pytest.mark.full
def test_the_demo_shows_ready_by_the_kernels_word_and_then_an_eject(tmp_path: Path) -> None:
    before = folders()
    # with CI, so that it cannot fall back to fake nodes
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "CI": "true"}

    done = processes.run(
        [sys.executable, "-m", "rig", "demo"], env=environment, cwd=tmp_path, timeout_s=LIMIT_S
    )

    assert "from this checkout" in done.stdout
    ready = done.stdout.index("True     Attached: ")
    ejected = re.search(r"^ +\d+ s  False +Ejected: .*runnable task stall", done.stdout, re.MULTILINE)
    assert ejected is not None, done.stdout
    assert ready < ejected.start()
    attached = rf"^schedextnode\S+/node1 +enabled +{catalog()['fifo'].ops_name} "
    assert re.search(attached, done.stdout[ready : ejected.start()], re.MULTILINE)
    assert re.search(r"^Verified +True +Verified .*was signed by cosign.pub", done.stdout, re.MULTILINE)
    told = re.search(r"That is (\d+) s after the eject", done.stdout)
    assert told is not None, done.stdout
    assert int(told[1]) <= _SOON_S
    assert "KUBECONFIG" not in done.stdout  # it would be gone before anybody could use it
    assert folders() <= before


def folders() -> set[str]:
    """Of demos that run, or have left something behind."""
    return {folder.name for folder in (cache.root() / "run").glob("demo-*")}
