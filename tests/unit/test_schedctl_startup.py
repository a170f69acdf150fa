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
before = set(sys.modules)
from schedkit.schedctl.__main__ import main
sys.argv = ["schedctl", "{word}"]
try:
    main()
except SystemExit as end:
    print(end.code or 0, *(set(sys.modules) - before), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("word", "given"),
    [
        pytest.param("--version", "click, locale", id="the version needs click alone"),
        pytest.param("--help", "click, locale, shutil, textwrap", id="help needs no verb"),
        pytest.param("status", "click, locale, pathlib", id="a status needs no network, and no JSON"),
    ],
)
def test_nothing_else_is_imported(word: str, given: str) -> None:
    """Beside our own modules; `locale`, `shutil` and `textwrap` are imported by click when it is at work."""
    probe = PROBE.format(word=word, given=given)
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    code, *imported = done.stderr.split()
    assert (code, bool(done.stdout)) == ("0", True)
    assert "schedkit.schedctl.main" in imported
    assert {name for name in imported if name.partition(".")[0] not in {"schedkit", "click"}} == set()
