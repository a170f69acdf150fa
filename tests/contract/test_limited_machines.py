"""On a machine without root or apt the suite runs what it can and says plainly what it could not, and why."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from rig import processes

_PROJECT = Path(__file__).parents[2]
_AS_NOBODY_SPECIAL = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_NEEDS_ROOT = "tests/kernel/test_guest.py"
_NEEDS_NO_ROOT = "tests/cluster/test_control_plane.py"
_NEEDS_NOTHING = "tests/unit/test_verbs.py"


def run_suite(*arguments: str, before: tuple[str, ...] = (), **environment: str) -> processes.Completed:
    """A pytest of its own on some of the project's tests."""
    argv = [*before, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    settings = os.environ | {"PYTHONPATH": str(_PROJECT / "tests"), "CI": ""} | environment
    return processes.run(argv, cwd=_PROJECT, env=settings, timeout_s=300, check=False)


@pytest.fixture
def path_without_apt(tmp_path: Path) -> str:
    """A PATH with every program of the machine but apt's."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).glob("*"):
            if not program.name.startswith("apt") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    assert shutil.which("apt-get", path=str(folder)) is None
    return str(folder)


def test_without_root_the_rest_runs_and_the_list_says_what_needs_it() -> None:
    run = run_suite(_NEEDS_ROOT, _NEEDS_NO_ROOT, before=_AS_NOBODY_SPECIAL)

    assert run.returncode == 0, run.stdout
    assert "virtual machines: virtiofsd and its mounts need root" in run.stdout
    assert "to do: run `make test` as root" in run.stdout
    assert "passed" in run.stdout.splitlines()[-1]


def test_without_apt_the_rest_runs_and_the_list_says_what_needs_it(
    tmp_path: Path, path_without_apt: str
) -> None:
    run = run_suite(
        _NEEDS_ROOT, _NEEDS_NOTHING, PATH=path_without_apt, XDG_CACHE_HOME=str(tmp_path / "empty")
    )

    assert run.returncode == 0, run.stdout
    assert "Debian packages: this machine has no Debian apt" in run.stdout
    assert "passed" in run.stdout.splitlines()[-1]


def test_in_ci_what_could_not_run_is_a_failure() -> None:
    run = run_suite(_NEEDS_ROOT, before=_AS_NOBODY_SPECIAL, CI="true")

    assert run.returncode == 1, run.stdout
    assert "8 tests could not run on this machine" in run.stdout
