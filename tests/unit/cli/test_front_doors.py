"""The front doors of `schedctl` and `sked`: how little is loaded before a verb is known."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", ["schedctl", "sked"])
def test_start_up_imports_little(command: str) -> None:
    """Beyond click, nothing that costs time before a verb is known."""
    load = f"import schedkit.{command}.main"
    probe = f"import sys; before = set(sys.modules); {load}; print(*set(sys.modules) - before)"

    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    outside = {name.partition(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)
    assert {name for name in outside if not name.startswith("_")} == {"click", "schedkit"}
    assert not {"asyncio", "http", "ssl", "importlib.metadata"} & set(done.stdout.split())
