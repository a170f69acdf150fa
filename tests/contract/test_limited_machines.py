"""On a machine without root or apt the suite runs what it can and says plainly what it could not, and why."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from rig.base import processes
from rig.build import debian

_PROJECT = Path(__file__).parents[2]
_AS_NOBODY_SPECIAL = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_WITHOUT_MOUNTS = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
# each starts a runtime, a guest or a whole run of its own, and would fail where it cannot
_NEED_ROOT = (
    "tests/contract/test_runtimes.py",
    "tests/contract/test_vm.py",
    "tests/contract/test_builds.py",
    "tests/kernel/test_guest.py",
    "tests/e2e",
)
_NEED_APT = (
    "tests/contract/test_runtimes.py",
    "tests/contract/test_vm.py",
    "tests/kernel/test_guest.py",
    "tests/e2e/test_hygiene.py",
)
_NEEDS_NO_ROOT = "tests/cluster/test_control_plane.py"
_NEEDS_NOTHING = "tests/unit/cli/test_verb_group.py"


@pytest.fixture
def as_nobody() -> tuple[str, ...]:
    """What takes root away, on a machine that could run everything with it."""
    debian.machine_suite()
    return _AS_NOBODY_SPECIAL if processes.is_root() else ()


def run_suite(*arguments: str, before: tuple[str, ...] = (), **environment: str) -> processes.Completed:
    """A pytest of its own on some of the project's tests."""
    argv = [*before, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    settings = os.environ | {"PYTHONPATH": str(_PROJECT / "tests"), "CI": ""} | environment
    return processes.run(argv, cwd=_PROJECT, env=settings, timeout_s=300, check=False)


def outcomes(run: processes.Completed) -> dict[str, int]:
    """How many of the tests that were asked for passed, were skipped and so on, by pytest's closing line."""
    counts = re.findall(r"(\d+) (\w+)", run.stdout.splitlines()[-1].partition(" in ")[0])
    return {word: int(number) for number, word in counts if word != "deselected"}


@pytest.fixture
def path_without_apt(tmp_path: Path) -> str:
    """A PATH with every program of the machine but apt's."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.is_file() and not program.name.startswith("apt") and not os.path.lexists(link):
                link.symlink_to(program)
    assert shutil.which("apt-get", path=str(folder)) is None
    return str(folder)


def test_without_root_the_rest_runs_and_the_list_says_what_needs_it(as_nobody: tuple[str, ...]) -> None:
    run = run_suite(*_NEED_ROOT, _NEEDS_NO_ROOT, before=as_nobody)

    assert run.returncode == 0, run.stdout
    assert outcomes(run).keys() == {"passed", "skipped"}
    assert "virtual machines: virtiofsd and its mounts need root" in run.stdout
    assert "to do: run this as root" in run.stdout


def test_root_that_may_not_mount_is_told_so(as_nobody: tuple[str, ...]) -> None:
    """As in a plain container."""
    before = _WITHOUT_MOUNTS if processes.is_root() else as_nobody
    run = run_suite(*_NEED_ROOT, _NEEDS_NO_ROOT, before=before)

    assert run.returncode == 0, run.stdout
    assert outcomes(run).keys() == {"passed", "skipped"}
    assert not processes.is_root() or "lacks CAP_SYS_ADMIN" in run.stdout


def test_without_apt_the_rest_runs_and_the_list_says_what_needs_it(path_without_apt: str) -> None:
    run = run_suite(*_NEED_APT, _NEEDS_NOTHING, PATH=path_without_apt)

    assert run.returncode == 0, run.stdout
    assert outcomes(run).keys() == {"passed", "skipped"}
    assert "Debian packages: this machine has no Debian apt" in run.stdout


def test_in_ci_what_could_not_run_is_a_failure(as_nobody: tuple[str, ...]) -> None:
    run = run_suite("tests/kernel/test_guest.py", before=as_nobody, CI="true")

    assert run.returncode == 1, run.stdout
    assert f"{outcomes(run)['skipped']} tests could not run on this machine" in run.stdout
