"""`tools/catalog.py`: the shipped catalog and the Containerfiles are those of the recipes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedkit.model.catalog import parse_catalog

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A tree with the recipes, and what is made from them."""
    shutil.copytree(RECIPES, tmp_path / "recipes", symlinks=True)
    (tmp_path / "src/schedkit").mkdir(parents=True)
    shutil.copy(ROOT / "src/schedkit/catalog.json", tmp_path / "src/schedkit")
    return tmp_path


def catalog(root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "tools/catalog.py"), "--root", str(root), *flags]
    env = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_catalog_and_containerfiles_are_those_of_the_recipes() -> None:
    done = catalog(ROOT, "--check")

    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_version_is_drift_until_the_catalog_is_made_anew(copied: Path) -> None:
    (copied / "recipes/scx_rusty/VERSION").write_text("9.9.9\n")

    done = catalog(copied, "--check")

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{file} is out of date: run `make catalog` and commit the result"
        for file in ("recipes/scx_rusty/Containerfile", "src/schedkit/catalog.json")
    ]
    assert catalog(copied).returncode == 0
    assert parse_catalog((copied / "src/schedkit/catalog.json").read_bytes())["scx_rusty"].version == "9.9.9"
