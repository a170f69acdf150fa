"""Rewrites the published JSON Schemas, and the parts of documents that are the output of a command.

Such a part stands between `<!-- output of: COMMAND -->` and `<!-- end of output -->`. With `--check` nothing
is changed; it says which files are out of date.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import schemas
import upkeep

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

    return _PART.sub(part, document.read_text())


def generated(root: Path) -> dict[Path, str]:
    """Each generated file with its whole new text."""
    documents = sorted((*root.glob("*.md"), *root.glob("docs/**/*.md")))
    ours = schemas.generated(root) if (root / "src/schedkit").is_dir() else {}
    return {**ours, **{document: regenerate(document) for document in documents}}


if __name__ == "__main__":
    sys.exit(upkeep.run(__doc__, generated, "generate"))
