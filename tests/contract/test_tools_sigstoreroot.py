"""`tools/sigstoreroot.py`: the embedded root of the public Sigstore is that of the package that is pinned."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec

from schedkit.oci.policy import dated_root

ROOT = Path(__file__).parents[2]


def test_the_embedded_root_is_that_of_the_pinned_package() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/sigstoreroot.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_another_embedded_root_than_the_packages_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "trusted_root.json").write_text("{}")
    tool: list[str | Path] = [sys.executable, ROOT / "tools/sigstoreroot.py", "--folder", tmp_path]

    before = subprocess.run([*tool, "--check"], capture_output=True, text=True, check=False)
    taken = subprocess.run(tool, capture_output=True, text=True, check=False)
    after = subprocess.run([*tool, "--check"], capture_output=True, text=True, check=False)

    assert (before.returncode, taken.returncode, after.returncode) == (1, 0, 0)
    assert "trusted_root.json is not the packaged one" in before.stderr


def test_the_embedded_root_is_as_old_as_the_release_it_is_from(tmp_path: Path) -> None:
    """Whenever it is copied: an update of the day before is newer than that."""
    subprocess.run([sys.executable, ROOT / "tools/sigstoreroot.py", "--folder", tmp_path], check=True)
    (pinned,) = (
        package
        for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
        if package["name"] == "sigstore"
    )

    found = json.loads((tmp_path / "origin.json").read_text())

    assert found["source"] == f"sigstore {pinned['version']}"
    assert pinned["wheels"][0]["upload-time"].startswith(found["taken"])
    assert dated_root.embedded().origin == msgspec.convert(found, dated_root.Origin)
