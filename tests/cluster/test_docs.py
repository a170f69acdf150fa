"""The commands of docs/sked/usage.md, run one after the other: they print what the page says."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import processes
from rig.cluster import controlplane, fakenodes
from rig.cluster.controlplane import ControlPlane
from rig.consoles import Command, File, steps
from rig.operator import manager

ROOT = Path(__file__).parents[2]
USAGE = ROOT / "docs/sked/usage.md"
LONGEST_S = 330  # more than any --timeout on the page
COMES_ABOUT_S = 90


@pytest.fixture
def readers_cluster() -> Iterator[ControlPlane]:
    """What the page promises its reader: three nodes, sked, and nothing else."""
    with (
        controlplane.running("docs", fake_nodes=True) as cluster,
        fakenodes.running(cluster, 3, pool="worker"),
    ):
        manager.install_crd(cluster)
        with manager.running(cluster):
            yield cluster


def test_the_commands_of_the_usage_page_print_what_it_shows(
    readers_cluster: ControlPlane, tmp_path: Path
) -> None:
    for step in steps(USAGE.read_text()):
        match step:
            case File(name, text):
                (tmp_path / name).write_text(text)
            case Command():
                follow(step, readers_cluster, tmp_path)


def follow(command: Command, cluster: ControlPlane, folder: Path) -> None:
    """Run it as the reader would; a look is repeated, as a reader would who sees that it takes a moment."""
    deadline = time.monotonic() + (COMES_ABOUT_S if command.only_looks else 0)
    done = run(command.words, cluster, folder)
    while not is_as_shown(command, done) and time.monotonic() < deadline:
        time.sleep(0.5)
        done = run(command.words, cluster, folder)
    assert is_as_shown(command, done), complaint(command, done)


def is_as_shown(command: Command, done: processes.Completed) -> bool:
    """Where the page shows no output, the command must at least succeed."""
    return command.matches(done.stdout) if command.shown else done.returncode == 0


def run(words: str, cluster: ControlPlane, folder: Path) -> processes.Completed:
    environment = {
        "PATH": f"{cluster.programs}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "KUBECONFIG": str(cluster.kubeconfig),
        "HOME": str(folder),
    }
    argv = ["bash", "-c", f"exec 2>&1; {words}"]
    return processes.run(argv, env=environment, cwd=folder, check=False, timeout_s=LONGEST_S)


def complaint(command: Command, done: processes.Completed) -> str:
    where, shown = f"{USAGE.name}:{command.line}", "\n".join(command.shown)
    return f"{where}: $ {command.words}\nshown:\n{shown}\nsaid, with {done.returncode}:\n{done.stdout}"
