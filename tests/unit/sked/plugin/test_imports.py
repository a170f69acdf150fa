"""`kubectl sked` is imported on systems of any kind, with nothing that only some of them have."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
VERBS = ", ".join(f"schedkit.sked.plugin.{verb}" for verb in ("main", "get", "explain", "stop", "resume"))
# as Windows is: `os` has no exit codes there, and no user
ELSEWHERE = (
    "import os\nfor each in dir(os):\n    if each.startswith(('EX_', 'getuid', 'geteuid')): delattr(os, each)"
)


def loaded(before: str = "") -> set[str]:
    """All modules that Python knows when every verb is imported."""
    program = f"{before}\nimport sys, {VERBS}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


def forbidden() -> set[str]:
    """What the import contract forbids, but for what Python's own modules import on this system."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (held,) = (each for each in contracts if each.get("source_modules") == ["schedkit.sked.plugin"])
    return set(held["forbidden_modules"]) - sys.stdlib_module_names


def test_no_verb_imports_what_only_linux_or_the_operator_has() -> None:
    found = loaded()

    assert "schedkit.sked.plugin.stop" in found
    assert found & forbidden() == set()


@pytest.mark.parametrize(
    "name", ["cryptography", "aiohttp", "grpc", "schedkit.kernel", "schedkit.sked.agent"]
)
def test_the_contract_forbids_what_a_laptop_need_not_have(name: str) -> None:
    assert name in forbidden()


def test_every_verb_is_imported_where_the_system_has_no_exit_codes_of_its_own() -> None:
    assert "schedkit.sked.plugin.stop" in loaded(ELSEWHERE)
