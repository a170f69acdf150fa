"""YAML that people write policies in, read strictly. PyYAML takes long to load: import this when needed."""

from __future__ import annotations

from typing import Any

import yaml

from schedkit.model.images.references import shown
from schedkit.model.images.strictjson import repeated
from schedkit.model.trust.policy import InvalidPolicy


def load_document(text: bytes) -> object:
    """The document in it; `ValueError` says what is wrong, as `InvalidPolicy` where YAML would accept it."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a kind of SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class _Loader(yaml.SafeLoader):
    """YAML whose keys are unique: the second of two would quietly replace the first.

    Nor has it aliases, by which a few lines become gigabytes, or tags, which a policy has no use for.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next value, unless it is written as an alias or has a tag."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # so say the stubs
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) is not None:
            what = "an alias" if isinstance(event, yaml.AliasEvent) else "a tag"
            line = event.start_mark.line + 1
            raise InvalidPolicy(f"line {line}: {what} is not accepted; write the value itself")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - the base class's signature
        """The mapping, unless a key stands in it twice."""
        twice = repeated(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice is not None:
            line = node.start_mark.line + 1
            raise InvalidPolicy(f"line {line}: the key {shown(twice)} appears twice")
        return super().construct_mapping(node, deep)
