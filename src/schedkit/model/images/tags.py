"""Tags as versions: which comes first, and which say nothing about one."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONGEST_NUMBER = 18  # digits; what is longer is a word
_VERSION = re.compile(
    r"v?(?P<numbers>[0-9]{1,18}(?:\.[0-9]{1,18}){0,7})(?:-(?P<early>[0-9A-Za-z.-]+))?(?:\+.*)?"
)
# what signing tools keep beside images, because a registry without referrers has no other place
_EVIDENCE = re.compile(r"sha256-[0-9a-f]{64}(?:\.\w+)?")


def is_evidence(tag: str) -> bool:
    """Whether the tag holds signatures or attestations of an image, rather than an image."""
    return _EVIDENCE.fullmatch(tag) is not None


def sort_versions(tags: Iterable[str]) -> list[str]:
    """Oldest version first, an early one before what it leads to; tags that are no version last, by name."""
    return sorted(tags, key=_key)


def _key(tag: str) -> tuple[bool, tuple[int, ...], bool, tuple[tuple[bool, int, str], ...], str]:
    found = _VERSION.fullmatch(tag)
    if found is None:
        return True, (), False, (), tag
    early = found["early"]
    return False, _numbers(found["numbers"]), early is None, _identifiers(early or ""), tag


def _numbers(text: str) -> tuple[int, ...]:
    """Without zeros at the end: 1.2 and 1.2.0 are the same version."""
    numbers = [int(part) for part in text.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _identifiers(text: str) -> tuple[tuple[bool, int, str], ...]:
    """As semantic versioning compares them: numbers as numbers, and before words."""
    return tuple(
        (False, int(part), "") if _is_number(part) else (True, 0, part) for part in text.split(".") if part
    )


def _is_number(part: str) -> bool:
    return part.isdecimal() and len(part) <= _LONGEST_NUMBER
