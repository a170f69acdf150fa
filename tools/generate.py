"""Rewrites what is generated, or names what is outdated.

That is JSON Schemas, the manual, the page of commands, all words for users, compiled .proto files, and
parts of documents.
The output of a command stands between `<!-- output of: COMMAND -->` and `<!-- end of output -->`, a table
that follows from the code between `<!-- table: NAME -->` and `<!-- end of table -->`. Beside each .proto file
in src lies what it compiles to.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import commandpage
import manpages
import schemas
import upkeep
import words
from recipestable import recipes_table
from statustable import status_table
from surfacetables import exit_codes_table, schemas_table, settings_table

_TABLES = {
    "recipes": recipes_table,
    "status": status_table,
    "settings": settings_table,
    "exit_codes": exit_codes_table,
    "schemas": schemas_table,
}
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


def compiled(proto: Path) -> bytes:
    """The descriptors of the file's messages and services, and of all that they use."""
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "descriptors"
        flags = [f"--proto_path={proto.parent}", "--include_imports", f"--descriptor_set_out={result}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *flags, proto.name], check=True)
        return result.read_bytes()


def generated(root: Path) -> dict[Path, bytes]:
    """Each generated file with its whole new content."""
    whole = (schemas.generated, commandpage.generated, manpages.generated, words.generated)
    texts = {}
    if (root / "src/schedkit").is_dir():
        texts = {file: text for write in whole for file, text in write(root).items()}
    documents = {*root.glob("*.md"), *root.glob("docs/**/*.md")} - texts.keys()
    texts |= {document: regenerate(document) for document in sorted(documents)}
    protos = {each.with_suffix(".binpb"): compiled(each) for each in sorted(root.glob("src/**/*.proto"))}
    return {file: text.encode() for file, text in texts.items()} | protos


if __name__ == "__main__":
    sys.exit(upkeep.run(__doc__, generated, "generate"))
