"""Trust policies on disk: YAML, with the key files and the trusted root that they name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from schedkit.disk import guarded
from schedkit.model.trust.policy import InvalidPolicy, Read, TrustPolicy, parse_policy
from schedkit.oci.policy.patterns import parse_pattern

T = TypeVar("T")
# the beginning of a file, of at most so many bytes; or an OSError or ValueError
Opener: TypeAlias = Callable[[Path, int], bytes]
# the document in a file's content; or a ValueError
Load: TypeAlias = Callable[[bytes], object]

_MAX_POLICY: Final = 256 << 10
_MAX_FILE: Final = 1 << 20


def load_yaml(text: bytes) -> object:
    """As `load_document`, which it loads first."""
    from schedkit.oci.policy.strict_yaml import load_document  # noqa: PLC0415 - slow, and not needed for what is kept

    return load_document(text)


def read_policy(file: Path, load: Load = load_yaml) -> TrustPolicy:
    """The policy in a file, with the files that it names; `InvalidPolicy` says what is wrong, and where.

    Root takes it from files alone that nobody else could have written: they decide what runs in the kernel.
    Keys and trusted root are read, but not understood: `check_policy` does that, or the first verification.
    """
    parse = partial(parse_policy, parse_pattern=parse_pattern)
    return read_with(file, parse, guarded.read_obeyed, load)


def read_beginning(file: Path, size: int) -> bytes:
    """At most that many bytes of it."""
    with file.open("rb") as opened:
        return opened.read(size)


def read_with(
    file: Path,
    parse: Callable[[object, Read], T],
    read_bytes: Opener = read_beginning,
    load: Load = load_yaml,
) -> T:
    """As `read_policy`, for other documents: what `parse` makes of it and of the files that it names."""
    try:
        document = load(_content(file, _MAX_POLICY, read_bytes))
        return parse(document, lambda name: _content(file.parent / name, _MAX_FILE, read_bytes))
    except InvalidPolicy as error:
        raise InvalidPolicy(f"{file}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidPolicy(f"{file} is not YAML: {error}") from error


def check_policy(policy: TrustPolicy) -> None:
    """Tell now what cannot be used, and not when something has to run; `InvalidPolicy`, if there is such."""
    from schedkit.oci.sigstore import keys, trusted_root  # noqa: PLC0415 - cryptography, which readers do without

    try:
        for rule in (policy.rule, *policy.repositories.values()):
            for key in rule.keys:
                what = f"the key {key.path}"
                keys.load_pem(key.content)
        if policy.trusted_root is not None:
            what = f"trustedRoot {policy.trusted_root.path}"
            trusted_root.parse_root(policy.trusted_root.content)
    except (keys.UnusableKey, trusted_root.InvalidRoot) as error:
        raise InvalidPolicy(f"{what} cannot be used: {error}") from error


def _content(file: Path, limit: int, read_bytes: Opener) -> bytes:
    try:
        data = read_bytes(file, limit + 1)
    except guarded.Unguarded as error:
        raise InvalidPolicy(f"{file} is not used: {error}; {error.remedy}") from error
    except (OSError, ValueError) as error:  # a path with a null character is no path
        why = error.strerror if isinstance(error, OSError) else None
        raise InvalidPolicy(f"{file} cannot be read: {why or error}") from error
    if len(data) > limit:
        raise InvalidPolicy(f"{file} has more than {limit} bytes")
    return data
