"""What `schedctl` imports before it answers: everybody waits for each module, at every call.

A verb's own modules are imported when it is called. What fails here is often an import at the top of a module
that `status` shares with others: write it where it is used.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PROBE = """
import gc, sys
import {given}
before, collected = set(sys.modules), gc.get_stats()
from schedkit.schedctl.__main__ import main
sys.argv = ["schedctl", "{word}"]
try:
    main()
except SystemExit as end:
    searches = "none" if gc.get_stats() == collected and gc.get_freeze_count() else "some"
    print(end.code or 0, searches, *(set(sys.modules) - before), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("word", "given"),
    [
        pytest.param("--version", "click, locale", id="the version needs click alone"),
        pytest.param("--help", "click, locale, shutil, textwrap", id="help needs no verb"),
        pytest.param("status", "click, locale, pathlib", id="a status needs no network, and no JSON"),
    ],
)
def test_nothing_else_is_imported_and_no_garbage_is_looked_for(word: str, given: str) -> None:
    """Beside our own modules; `locale`, `shutil` and `textwrap` are imported by click when it is at work."""
    probe = PROBE.format(word=word, given=given)
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    code, searches, *imported = done.stderr.split()
    assert (code, searches, bool(done.stdout)) == ("0", "none", True)
    assert "schedkit.schedctl.main" in imported
    assert {name for name in imported if name.partition(".")[0] not in {"schedkit", "click"}} == set()


def loaded_with(*names: str) -> set[str]:
    """All modules that are there once these of ours are imported."""
    program = f"import sys, {', '.join(f'schedkit.{name}' for name in names)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_a_status_needs_neither_runtimes_nor_times_to_wait_nor_the_types_of_its_schema() -> None:
    loaded = loaded_with("schedctl.main", "schedctl.verbs.machine.status", "schedctl.change.this_kernel")

    unwanted = {"runtimes", "schedctl.settings.durations", "schedctl.verbs.machine.status_schema"}
    assert loaded & {f"schedkit.{name}" for name in unwanted} == set()


def test_the_reason_why_a_container_is_not_in_the_kernel_needs_nothing_that_changes_the_machine() -> None:
    loaded = loaded_with(
        "schedctl.verbs.machine.status", "schedctl.change.why_detached", "runtimes.podman.client"
    )

    unwanted = {"concurrent.futures", "ctypes", "hashlib", "msgspec", "schedkit.schedctl.change.executor"}
    assert loaded & unwanted == set()
