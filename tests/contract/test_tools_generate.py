"""`tools/generate.py`: parts of documents that are the output of commands, and compiled descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "generate.py"
DOCUMENT = "# Title\n\n<!-- output of: echo hello -->\n{}<!-- end of output -->\n\nText.\n"
FRESH = DOCUMENT.format("\n```text\nhello\n```\n\n")


def generate(root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(TOOL), "--root", str(root), *flags]
    env = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_part_becomes_the_output_of_its_command(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(DOCUMENT.format("old\n"))

    assert generate(tmp_path).returncode == 0

    assert (tmp_path / "README.md").read_text() == FRESH


def test_drift_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    stale = FRESH.replace("hello\n```", "hullo\n```")
    (tmp_path / "README.md").write_text(stale)

    done = generate(tmp_path, "--check")

    assert (done.returncode, (tmp_path / "README.md").read_text()) == (1, stale)
    assert done.stderr == "README.md is out of date: run `make generate` and commit the result\n"


def test_a_document_that_is_up_to_date_passes(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(FRESH)

    assert generate(tmp_path, "--check").returncode == 0


def test_descriptors_follow_their_source(tmp_path: Path) -> None:
    proto = tmp_path / "src" / "calls.proto"
    proto.parent.mkdir()
    proto.write_text('syntax = "proto3"; message Question { string text = 1; }')

    assert generate(tmp_path).returncode == 0
    assert b"Question" in proto.with_suffix(".binpb").read_bytes()
    assert generate(tmp_path, "--check").returncode == 0

    proto.write_text('syntax = "proto3"; message Answer { string text = 1; }')
    done = generate(tmp_path, "--check")

    assert done.returncode == 1
    assert done.stderr == "src/calls.binpb is out of date: run `make generate` and commit the result\n"
