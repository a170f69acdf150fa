"""A run that is killed while it builds leaves neither compilers at work nor an entry that looks complete."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from rig.base import cache, polling, processes
from rig.base.processes import Process
from rig.runtimes import images

_TESTS = Path(__file__).parents[1]
_STARTED_S = 120
_ENDED_S = 1.5  # a compiler that is left alone ends by itself later: that would prove nothing
_BUILDS = "from rig.runtimes import images; images.probe()"


@pytest.fixture
def empty_cache(tmp_path: Path) -> Path:
    """A cache with nothing in it but Go itself, if the machine has none of its own."""
    processes.require_mounts("builds that end at once", "the namespace of compilers needs root")
    images.probe()
    toolchain = cache.root() / "go-toolchain"
    (tmp_path / "schedkit").mkdir()
    if toolchain.exists():
        (tmp_path / "schedkit" / toolchain.name).symlink_to(toolchain)
    return tmp_path


def at_work(place: Path) -> dict[int, str]:
    """The command lines of the processes, wherever they come from, whose environment names the folder."""
    return {pid: line for pid, line in processes.command_lines().items() if str(place) in _environment(pid)}


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:  # it is gone, or somebody else's
        return ""


def _compiles(place: Path) -> bool:
    """Whether the compiler is at the package that takes it longest."""
    return any("/compile " in line and " -p runtime " in line for line in at_work(place).values())


def test_compilers_end_with_the_run_that_started_them(empty_cache: Path, tmp_path: Path) -> None:
    places = {"XDG_CACHE_HOME": str(empty_cache), "TMPDIR": str(empty_cache), "PYTHONPATH": str(_TESTS)}
    run = Process([sys.executable, "-c", _BUILDS], log=tmp_path / "run.log", env=os.environ | places)
    with processes.running(run):
        run.await_ready(lambda: _compiles(empty_cache), timeout_s=_STARTED_S, poll_s=0.05)

        run.send(signal.SIGKILL)
        run.wait(timeout_s=30)

    polling.until(lambda: not at_work(empty_cache), "no compiler is left", timeout_s=_ENDED_S)
    assert not list((empty_cache / "schedkit" / "go").glob("probe-*"))
