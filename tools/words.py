"""Every sentence that users of `schedctl`, `sked` and the CRD may read, in one file that people can read.

tests/golden/words.txt is made from the source: help texts, messages, remedies and descriptions of fields, by
module and in their order there. `{}` stands for what is filled in. Whoever changes a word sees it there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FILE = Path("tests/golden/words.txt")
# rooms whose strings nobody reads, because each speaks to a machine
_SILENT = ("kube/access", "model/images/grammar.py")
_API = "model/api/"


def generated(root: Path) -> dict[Path, str]:
    """The file with its whole new text."""
    source, blocks = root / "src/schedkit", []
    for file in sorted(source.rglob("*.py")):
        name = str(file.relative_to(source))
        words = list(dict.fromkeys(_words(ast.parse(file.read_text()), is_api=name.startswith(_API))))
        if words and not name.startswith(_SILENT):
            blocks.append("\n".join([f"## {name}", *words]))
    return {root / FILE: "\n\n".join(blocks) + "\n"}


def _words(tree: ast.Module, *, is_api: bool) -> Iterator[str]:
    """The strings of several words; of docstrings those that become help texts or descriptions of fields."""
    unread = set() if is_api else set(_docstrings(tree))
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in sorted(
        ast.walk(tree), key=lambda each: (getattr(each, "lineno", 0), getattr(each, "col_offset", 0))
    ):
        if id(node) in unread or id(node) in parts:
            continue
        text = _text(node)
        if text and _is_sentence(text):
            yield " ".join(text.split())


def _docstrings(tree: ast.Module) -> Iterator[int]:
    """The strings that only readers of the code see: all docstrings but those of commands."""
    helps = {
        id(node.body[0]) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_command(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and id(node) not in helps:
            yield id(node.value)


def _is_command(function: ast.FunctionDef) -> bool:
    return any(
        ".command" in ast.unparse(one) or ".group" in ast.unparse(one) for one in function.decorator_list
    )


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def _is_sentence(text: str) -> bool:
    """At least two words, one of them of letters alone; no path, pattern or line of a format."""
    words = text.split()
    return len(words) > 1 and any(word.strip("{}`,.:;()'").isalpha() for word in words)
