"""`.ci/run`: the exit code is make's, the last line is pytest's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "run"
CLOSING_LINE = "==== 1 failed, 12 passed, 3 skipped in 65.31s (0:01:05) ===="


def run_ci(folder: Path, *recipe: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script beside a Makefile whose `test` is this recipe."""
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci" / "run")
    (folder / "Makefile").write_text("test:\n" + "".join(f"\t{line}\n" for line in recipe))
    return subprocess.run(
        [folder / ".ci" / "run"], capture_output=True, text=True, timeout=60, check=False, cwd="/"
    )


def test_a_passing_run_ends_with_zero_and_the_closing_line(tmp_path: Path) -> None:
    done = run_ci(tmp_path, "@echo '3 passed in 0.12s'")

    assert done.returncode == 0
    assert done.stdout.splitlines()[-2].startswith("make test: passed after ")
    assert done.stdout.splitlines()[-1] == "3 passed in 0.12s"


def test_a_failing_run_ends_with_makes_code_and_still_the_closing_line(tmp_path: Path) -> None:
    done = run_ci(tmp_path, f"@echo '{CLOSING_LINE}'", "@false")

    assert done.returncode == 2
    assert done.stdout.splitlines()[-2].startswith("make test: failed with exit code 2 after ")
    assert done.stdout.splitlines()[-1] == CLOSING_LINE


def test_a_run_that_never_reached_pytest_says_so(tmp_path: Path) -> None:
    done = run_ci(tmp_path, "@echo 'error: Found 3 errors in 1 file'", "@false")

    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("pytest did not get to its end")


def test_it_asks_for_ci_rules(tmp_path: Path) -> None:
    assert "CI is true" in run_ci(tmp_path, "@echo CI is $$CI").stdout


@pytest.mark.parametrize(
    "line", ["5 passed, 1 warning in 2.00s", "no tests ran in 0.01s", "1 error in 0.20s"]
)
def test_every_kind_of_closing_line_is_recognised(tmp_path: Path, line: str) -> None:
    assert run_ci(tmp_path, f"@echo '{line}'", "@echo afterwards").stdout.splitlines()[-1] == line
