"""However a run ends, no process of its control plane outlives it, and the next run clears its folder."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from rig.base import cache, polling, processes
from rig.base.processes import Process

_TESTS = Path(__file__).parent.parent
_KEEP_A_CLUSTER = """
import signal
from rig.cluster import controlplane, fakenodes
with controlplane.running("hygiene", fake_nodes=True) as cluster, fakenodes.running(cluster, 1):
    print(f"folder={cluster.folder}", flush=True)
    signal.pause()
"""


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_TESTS)}


def _processes_of(folder: Path) -> list[str]:
    """The command lines that name the run folder."""
    return [words[:120] for words in processes.command_lines().values() if str(folder) in words]


def _announced(run: Process, pattern: str) -> Path:
    run.await_ready(lambda: re.search(pattern, run.log.read_text()) is not None, timeout_s=120)
    match = re.search(pattern, run.log.read_text())
    assert match is not None
    return Path(match[1])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_run_that_is_ended_leaves_no_process_and_no_folder(
    number: signal.Signals, tmp_path: Path, environment: dict[str, str]
) -> None:
    run = Process([sys.executable, "-c", _KEEP_A_CLUSTER], log=tmp_path / "run.log", env=environment)
    with processes.running(run):
        folder = _announced(run, r"folder=(\S+)")
        assert folder.parent == cache.root() / "run"
        assert len(_processes_of(folder)) == 5, "four programs and the stand-in for kubelets"

        run.send(number)
        assert run.wait(timeout_s=30) is not None, run.tail()

    polling.until(lambda: not _processes_of(folder), f"nothing of {folder} runs", timeout_s=15)
    processes.sweep()
    assert not folder.exists()


def test_a_cluster_kept_by_hand_prints_its_kubeconfig_and_ends_cleanly_with_ctrl_c(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    run = Process([sys.executable, "-m", "rig", "cluster"], log=tmp_path / "run.log", env=environment)
    with processes.running(run):
        kubeconfig = _announced(run, r"export KUBECONFIG=(\S+)")
        (line,) = re.findall(r"export KUBECONFIG=.*", run.log.read_text())
        answer = processes.run(["sh", "-c", f"{line}; kubectl get --raw /readyz"])
        assert answer.stdout == "ok"

        polling.until(lambda: "Ctrl-C" in run.log.read_text(), "it waits for us")
        run.send(signal.SIGINT)
        assert run.wait(timeout_s=30) == 0, run.tail()

    assert not _processes_of(kubeconfig.parent)
    assert not kubeconfig.parent.exists()
