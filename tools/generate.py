"""Rewrites what is generated, or says what of it is out of date.

A part of a document that is the output of a command stands between `<!-- output of: COMMAND -->` and
`<!-- end of output -->`. Beside each .proto file in src lies what it compiles to.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

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


def compiled(proto: Path) -> bytes:
    """The descriptors of the file's messages and services, and of all that they use."""
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "descriptors"
        flags = [f"--proto_path={proto.parent}", "--include_imports", f"--descriptor_set_out={result}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *flags, proto.name], check=True)
        return result.read_bytes()


def generated(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file with generated parts, as it should be."""
    for document in sorted((*root.glob("*.md"), *root.glob("docs/**/*.md"))):
        yield document, regenerate(document).encode()
    for proto in sorted(root.glob("src/**/*.proto")):
        yield proto.with_suffix(".binpb"), compiled(proto)


def main() -> int:
    """Rewrite, or with `--check` compare; 1 when something is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if something would change")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    chosen = parser.parse_args()
    fresh = dict(generated(chosen.root))
    outdated = {file: text for file, text in fresh.items() if not file.exists() or file.read_bytes() != text}
    if chosen.check:
        for file in outdated:
            name = file.relative_to(chosen.root)
            sys.stderr.write(f"{name} is out of date: run `make generate` and commit the result\n")
        return 1 if outdated else 0
    for file, text in outdated.items():
        file.write_bytes(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
