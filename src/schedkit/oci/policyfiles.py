"""Trust policies in YAML: read strictly, because two readers of one file must see one policy."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from schedkit.model.trust import InvalidPolicy, TrustPolicy, parse_policy

_LARGEST: Final = 1 << 20


class _StrictLoader(yaml.SafeLoader):
    """YAML without what makes a file mean something else than it seems to."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """One node; an alias is refused."""
        if self.check_event(yaml.AliasEvent):
            raise InvalidPolicy("it has an alias, which begins with `*`; write out what it stands for")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - PyYAML's
        """One mapping; a key that stands twice is refused."""
        keys = [key.value for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise InvalidPolicy(f"line {node.start_mark.line + 1}: the key {twice!r} stands twice")
        return super().construct_mapping(node, deep)


def read_policy(file: Path) -> TrustPolicy:
    """The policy in a file; the files it names are looked for beside it. Raises `InvalidPolicy`."""
    return load_policy(_read(file), lambda name: _read(file.parent / name), origin=str(file))


def load_policy(text: bytes, read: Callable[[str], bytes], *, origin: str) -> TrustPolicy:
    """The policy in a text; `read` gets the files it names, and errors begin with `origin`."""
    try:
        return parse_policy(_load(text), read)
    except InvalidPolicy as error:
        raise InvalidPolicy(f"{origin}: {error}") from error


def _load(text: bytes) -> object:
    try:
        document: object = yaml.load(text.decode(), _StrictLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidPolicy(f"it is no YAML: {' '.join(str(error).split())}") from error
    return document


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            text = stream.read(_LARGEST + 1)
    except OSError as error:
        raise InvalidPolicy(f"{file} cannot be read: {error.strerror}") from error
    if len(text) > _LARGEST:
        raise InvalidPolicy(f"{file} has more than {_LARGEST} bytes")
    return text
