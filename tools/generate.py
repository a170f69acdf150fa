"""Rewrites the parts of documents that are generated, or says which are out of date.

The output of a command stands between `<!-- output of: COMMAND -->` and `<!-- end of output -->`, a
table that follows from the code between `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from statustable import status_table

_TABLES = {"status": status_table}
_TABLE = re.compile(r"(?P<head><!-- table: (?P<name>\w+) -->\n).*?(?P<tail><!-- end of table -->)", re.DOTALL)
_PART = re.compile(
    r"(?P<head><!-- output of: (?P<command>.+?) -->\n).*?(?P<tail><!-- end of output -->)", re.DOTALL
)


def output_of(command: str, folder: Path) -> str:
    """What the command prints, as a document shows it; the same on every machine."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {"PATH": path, "COLUMNS": "80", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return f"\n```text\n{done.stdout.strip()}\n```\n\n"


def regenerate(document: Path) -> str:
    """The document's text with every generated part made anew."""

    def part(match: re.Match[str]) -> str:
        return match["head"] + output_of(match["command"], document.parent) + match["tail"]

    def table(match: re.Match[str]) -> str:
        return match["head"] + _TABLES[match["name"]]() + match["tail"]

    return _TABLE.sub(table, _PART.sub(part, document.read_text()))


def main() -> int:
    """Rewrite, or with `--check` compare; 1 when something is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if something would change")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    chosen = parser.parse_args()
    documents = (*chosen.root.glob("*.md"), *chosen.root.glob("docs/**/*.md"))
    fresh = {document: regenerate(document) for document in sorted(documents)}
    outdated = {document: text for document, text in fresh.items() if text != document.read_text()}
    if chosen.check:
        for document in outdated:
            name = document.relative_to(chosen.root)
            sys.stderr.write(f"{name} is out of date: run `make generate` and commit the result\n")
        return 1 if outdated else 0
    for document, text in outdated.items():
        document.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
