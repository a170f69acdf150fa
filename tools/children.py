"""Programs that a tool runs for somebody at a terminal: they end when the tool does, however it ends."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
# make leashes its tools in the same way, but a leash reaches no further than one process
_LEASHED = ("setpriv", "--pdeathsig", "TERM")


def run(argv: Sequence[str], *, stdin: str | None = None) -> int:
    """Run it in the open, its words reach the terminal; the exit code."""
    return subprocess.run([*_LEASHED, *argv], input=stdin, text=True, cwd=ROOT, check=False).returncode


def ask(
    argv: Sequence[str], *, stdin: str | None = None, aloud: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run it and keep what it says; with `aloud`, what it says on stderr reaches the terminal instead."""
    errors = None if aloud else subprocess.PIPE
    return subprocess.run(
        [*_LEASHED, *argv],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        cwd=ROOT,
        check=False,
    )
