"""Trust policies on disk: YAML, with the key files and the trusted root that they name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import yaml

from schedkit.model.documents import repeated
from schedkit.model.images import shown
from schedkit.model.trust import InvalidPolicy, Read, TrustPolicy, parse_policy
from schedkit.oci import guarded

T = TypeVar("T")
# the beginning of a file, of at most so many bytes; or an OSError or ValueError
Opener: TypeAlias = Callable[[Path, int], bytes]

_MAX_POLICY: Final = 256 << 10
_MAX_FILE: Final = 1 << 20


def read_policy(file: Path) -> TrustPolicy:
    """The policy in a file, with the files that it names; `InvalidPolicy` says what is wrong, and where.

    Root takes it from files alone that nobody else could have written: they decide what runs in the kernel.
    Keys and trusted root are read, but not understood: `check_policy` does that, or the first verification.
    """
    return read_with(file, parse_policy, guarded.read_obeyed)


def read_beginning(file: Path, size: int) -> bytes:
    """At most that many bytes of it."""
    with file.open("rb") as opened:
        return opened.read(size)


def read_with(file: Path, parse: Callable[[object, Read], T], read_bytes: Opener = read_beginning) -> T:
    """As `read_policy`, for other documents: what `parse` makes of it and of the files that it names."""
    try:
        document = yaml.load(_content(file, _MAX_POLICY, read_bytes), _Loader)  # noqa: S506 - a kind of SafeLoader
        return parse(document, lambda name: _content(file.parent / name, _MAX_FILE, read_bytes))
    except InvalidPolicy as error:
        raise InvalidPolicy(f"{file}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidPolicy(f"{file} is not YAML: {error}") from error


def check_policy(policy: TrustPolicy) -> None:
    """Tell now what cannot be used, and not when something has to run; `InvalidPolicy`, if there is such."""
    from schedkit.oci import signatures, trustedroots  # noqa: PLC0415 - cryptography, which readers do without

    try:
        for rule in (policy.rule, *policy.repositories.values()):
            for key in rule.keys:
                what = f"the key {key.path}"
                signatures.load_pem(key.content)
        if policy.trusted_root is not None:
            what = f"trustedRoot {policy.trusted_root.path}"
            trustedroots.parse_root(policy.trusted_root.content)
    except (signatures.UnusableKey, trustedroots.InvalidRoot) as error:
        raise InvalidPolicy(f"{what} cannot be used: {error}") from error


def _content(file: Path, limit: int, read_bytes: Opener) -> bytes:
    try:
        data = read_bytes(file, limit + 1)
    except guarded.Unguarded as error:
        raise InvalidPolicy(f"{file} is not obeyed: {error}; {error.remedy}") from error
    except (OSError, ValueError) as error:  # a path with a null character is no path
        why = error.strerror if isinstance(error, OSError) else None
        raise InvalidPolicy(f"{file} cannot be read: {why or error}") from error
    if len(data) > limit:
        raise InvalidPolicy(f"{file} has more than {limit} bytes")
    return data


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
            raise InvalidPolicy(f"line {line}: the key {shown(twice)} stands there twice")
        return super().construct_mapping(node, deep)
