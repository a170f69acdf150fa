"""What the writers of generated files have in common: they write, or only say what is out of date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def run(what: str, make: Callable[[Path], Mapping[Path, bytes]], target: str) -> int:
    """Write each file that `make` gives another content, or with `--check` name it and return 1.

    `what` is said in the help, and `target` is what a person makes to bring them up to date.
    """
    chosen = _arguments(what)
    fresh = make(chosen.root)
    outdated = {
        file: content for file, content in fresh.items() if not file.exists() or file.read_bytes() != content
    }
    for file, content in outdated.items():
        if chosen.check:
            name = file.relative_to(chosen.root)
            sys.stderr.write(f"{name} is out of date: run `make {target}` and commit the result\n")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return 1 if chosen.check and outdated else 0


def _arguments(what: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if something would change")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    return parser.parse_args()
