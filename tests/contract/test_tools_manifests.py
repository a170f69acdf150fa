"""`tools/manifests.py`: the CRD, its reference and the RBAC are those of their sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CRD = Path("config/crd/bases/sked.schedkit.io_schedexts.yaml")
REFERENCE = Path("docs/sked/crd-reference.md")


def run_tool(root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "tools/manifests.py"), "--root", str(root), *flags]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The generated files, in a folder that a test may spoil."""
    for folder in ("config", "charts", "docs/sked"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def test_what_is_generated_is_up_to_date() -> None:
    done = run_tool(ROOT, "--check")

    assert (done.returncode, done.stderr) == (0, "")


HAND_EDITED = {
    CRD: "Image of the scheduler",
    REFERENCE: "Image of the scheduler",
    Path("charts/sked/files/crd.yaml"): "Image of the scheduler",
    Path("config/rbac/role.yaml"): "daemonsets",
    Path("config/rbac/leader_election_role.yaml"): "leases",
    Path("charts/sked/files/manager-rules.yaml"): "daemonsets",
    Path("charts/sked/files/leader-election-rules.yaml"): "leases",
    Path("config/crd/bases/sked.schedkit.io_schedextnodes.yaml"): "Name of the scheduler",
    Path("charts/sked/files/node-crd.yaml"): "Name of the scheduler",
    Path("config/agent/role.yaml"): "schedextnodes",
    Path("charts/sked/files/agent-rules.yaml"): "schedextnodes",
    Path("config/agent-metrics/role.yaml"): "tokenreviews",
    Path("charts/sked/files/agent-metrics-rules.yaml"): "tokenreviews",
    Path("docs/sked/usage.md"): "a node cannot pull the image",
    Path("docs/sked/installation.md"): "how the schedulers are doing, and the agents on the nodes",
}


def test_hand_edited_files_are_named_and_mended(copy: Path) -> None:
    """All at once: the tool takes a second each time."""
    good = {file: (copy / file).read_text() for file in HAND_EDITED}
    for file, words in HAND_EDITED.items():
        assert words in good[file]
        (copy / file).write_text(good[file].replace(words, "something else"))

    done = run_tool(copy, "--check")
    named = {f"{file} is out of date: run `make manifests` and commit the result" for file in HAND_EDITED}
    assert (done.returncode, set(done.stderr.splitlines())) == (1, named)

    assert run_tool(copy).returncode == 0
    assert {file: (copy / file).read_text() for file in HAND_EDITED} == good
