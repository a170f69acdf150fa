"""`tools/uv`: which uv it runs. Stand-ins print who they are."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tomllib
from pathlib import Path

import pytest

from rig.base import polling

TOOLS = Path(__file__).parents[3] / "tools"
PINNED = re.findall(r"^uv==(\S+)", (TOOLS / "uv-requirements.txt").read_text(), re.MULTILINE)[0]


def place(file: Path, source: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{source}\n")
    file.chmod(0o755)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A cache with the pinned uv in it, and a PATH that begins with a folder of ours."""
    place(tmp_path / "schedkit" / f"uv-{PINNED}" / "bin" / "uv", 'echo "pinned $*"')
    path = os.pathsep.join((str(tmp_path / "bin"), "/usr/bin", "/bin"))
    return {"PATH": path, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}


def run(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [str(TOOLS / "uv"), "sync", "--frozen"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        pytest.param(PINNED, "machine's sync --frozen\n", id="the same version is good enough"),
        pytest.param("99.0.0", "machine's sync --frozen\n", id="a newer one is, too"),
        pytest.param("0.4.30", "pinned sync --frozen\n", id="an older one may not read the lock"),
    ],
)
def test_the_machines_uv_is_used_when_it_is_new_enough(
    environment: dict[str, str], tmp_path: Path, version: str, answer: str
) -> None:
    source = f'[ "$1" = --version ] && echo "uv {version} (x86_64)" || echo "machine\'s $*"'
    place(tmp_path / "bin" / "uv", source)

    assert run(environment).stdout == answer


def test_the_project_refuses_the_same_versions_as_the_script() -> None:
    settings = tomllib.loads((TOOLS.parent / "pyproject.toml").read_text())["tool"]["uv"]

    assert settings["required-version"] == f">={PINNED}"


def test_a_uv_that_does_not_run_is_passed_over(environment: dict[str, str], tmp_path: Path) -> None:
    place(tmp_path / "bin" / "uv", "exit 127")

    assert run(environment).stdout == "pinned sync --frozen\n"


def test_when_it_cannot_be_fetched_it_says_what_to_do_and_leaves_nothing_behind(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """The stand-in for Python has neither pip nor venv, and there is no apt."""
    (tmp_path / "schedkit" / f"uv-{PINNED}" / "bin" / "uv").unlink()
    for name in ("uv", "python3", "apt-get"):
        place(tmp_path / "bin" / name, "exit 1")
    before = sorted((tmp_path / "schedkit").iterdir())

    done = run(environment)

    assert done.returncode == 1
    assert f"install uv {PINNED} or newer, then try again" in done.stderr
    assert sorted((tmp_path / "schedkit").iterdir()) == before


def test_who_interrupts_the_fetch_is_not_told_to_install_anything(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """The stand-in for pip ends as Python does: with a traceback."""
    (tmp_path / "schedkit" / f"uv-{PINNED}" / "bin" / "uv").unlink()
    place(tmp_path / "bin" / "uv", "exit 1")
    started = tmp_path / "started"
    place(
        tmp_path / "bin" / "python3",
        f"""[ "$3" = --version ] && exit
        trap 'echo Traceback >&2; exit 1' INT; touch {started}; sleep 60 & wait""",
    )
    before = sorted((tmp_path / "schedkit").iterdir())
    words = [str(TOOLS / "uv"), "sync"]

    with subprocess.Popen(
        words, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as fetch:
        polling.until(started.exists, "pip runs", timeout_s=30)
        os.killpg(fetch.pid, signal.SIGINT)
        _, said = fetch.communicate(timeout=60)

    assert fetch.returncode == 130
    assert said.splitlines()[-1] == (
        f"interrupted: uv {PINNED} is not fetched yet; the same command again fetches it"
    )
    assert "Traceback" not in said
    assert sorted((tmp_path / "schedkit").iterdir()) == before
