"""`kubectl sked` runs on laptops of any kind."""

from __future__ import annotations

import subprocess
import sys

# what only Linux has, what only the operator's image has, and the operator itself
UNWANTED = {
    *("schedkit.kernel", "schedkit.runtimes", "schedkit.oci", "schedkit.disk"),
    *("schedkit.sked.wiring", "schedkit.sked.reconcile", "schedkit.sked.agent"),
    *("aiohttp", "structlog", "prometheus_client", "cryptography"),
}


def test_no_verb_imports_what_only_linux_or_the_operator_has() -> None:
    names = ", ".join(f"schedkit.sked.plugin.{verb}" for verb in ("main", "get", "explain", "stop", "resume"))
    program = f"import sys, {names}; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    loaded = set(done.stdout.split())
    assert "schedkit.sked.plugin.stop" in loaded
    assert loaded & UNWANTED == set()
