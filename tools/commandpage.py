"""The page of all commands, from what they print as their help."""

from __future__ import annotations

from pathlib import Path

from commandtree import Described, tree

PAGE = Path("docs/schedctl/commands.md")
_HEAD = """\
# Commands of schedctl

<!-- written by `make generate` from the commands themselves -->

What `--help` of each command prints. The same is in the manual: `man schedctl`, `man schedctl-run`. Many
flags may be given once and for all, in a [configuration file](configuration.md).
"""


def generated(root: Path) -> dict[Path, str]:
    """The page with its whole new text."""
    return {root / PAGE: _HEAD + "".join(map(_section, tree()))}


def _section(described: Described) -> str:
    return f"\n## {described.title}\n\n```text\n{described.command.get_help(described.ctx).strip()}\n```\n"
