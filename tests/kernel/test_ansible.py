"""The playbook of docs/schedctl/scripting.md, played on a machine whose kernel can run schedulers.

Ansible starts many interpreters, each of which takes seconds in an emulated guest: the module is `full`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.build import ansible
from rig.consoles import File, steps
from rig.guest import schedext
from rig.runtimes import images
from rig.runtimes.podman import Podman

pytestmark = [pytest.mark.kernel("7"), pytest.mark.full]

SCRIPTING = Path(__file__).parents[2] / "docs/schedctl/scripting.md"
TIMEOUT_S = 250
OTHER = "2.0.0"


def prepare_on_host() -> None:
    images.scheduler("fifo")
    images.scheduler("fifo", version=OTHER)
    ansible.packages()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def podman(home: Path) -> Iterator[Podman]:
    """The guest's own Podman; afterwards it has no container, and the kernel its own scheduler."""
    with Podman(home / "podman", root=Path("/"), isolated=False) as podman:
        yield podman
        podman.run("rm", "--all", "--force", "--time=0")
        schedext.await_disabled(timeout_s=TIMEOUT_S)


def changes(podman: Podman, home: Path, *, version: str = "") -> int:
    """Play it, and say how many tasks changed something."""
    [playbook] = [step for step in steps(SCRIPTING.read_text()) if isinstance(step, File)]
    (home / playbook.name).write_text(playbook.text)
    layout = images.scheduler("fifo", version=version)
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin",
        "SCHEDCTL_PODMAN_SOCKET": str(podman.socket),
        "SCHEDCTL_LAYOUT": str(layout),
        "SCHEDCTL_ALLOW_UNSIGNED": "true",
        "SCHEDCTL_TIMEOUT": "60",
    }
    reference = f"registry.rig.test/rig/fifo@{images.digest(layout)}"
    played = ansible.play(
        home / playbook.name, home=home, env=env, values={"scheduler": reference}, timeout_s=TIMEOUT_S
    )
    assert played.returncode == 0, played.stdout + played.stderr
    found = re.search(r"changed=(\d+)", played.stdout)
    assert found is not None
    return int(found[1])


@pytest.fixture(scope="module")
def first(podman: Podman, home: Path) -> int:
    """How many tasks changed something when it was played on a machine whose kernel ran its own scheduler."""
    return changes(podman, home)


def test_the_playbook_runs_the_scheduler_where_none_runs(first: int) -> None:
    assert first == 1
    assert (schedext.state(), schedext.ops()) == ("enabled", "rig_fifo")


def test_played_again_it_changes_nothing(first: int, podman: Podman, home: Path) -> None:
    before = schedext.enable_seq()

    assert changes(podman, home) == 0
    assert (schedext.state(), schedext.ops(), schedext.enable_seq()) == ("enabled", "rig_fifo", before)


def test_it_takes_the_place_of_another_that_schedctl_started(first: int, podman: Podman, home: Path) -> None:
    before = schedext.enable_seq()

    assert changes(podman, home, version=OTHER) == first
    assert (schedext.state(), schedext.ops(), schedext.enable_seq()) == ("enabled", "rig_fifo", before + 1)
    assert len(podman.run("ps", "--all", "--quiet").stdout.split()) == 1
