"""Hashes over an append-only list (RFC 6962, section 2.1): its root, and the proof that a leaf is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def leaf_hash(leaf: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + leaf).digest()


def root_hash(leaves: Sequence[bytes]) -> bytes:
    """The hash that stands for the whole list."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    left, right = _split(leaves)
    return hashlib.sha256(b"\x01" + root_hash(left) + root_hash(right)).digest()


def inclusion_path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """The sibling hashes that lead from a leaf to the root, nearest first."""
    if len(leaves) == 1:
        return []
    left, right = _split(leaves)
    if index < len(left):
        return [*inclusion_path(index, left), root_hash(right)]
    return [*inclusion_path(index - len(left), right), root_hash(left)]


def _split(leaves: Sequence[bytes]) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Cut at the largest power of two that leaves something on the right."""
    middle = 1 << ((len(leaves) - 1).bit_length() - 1)
    return leaves[:middle], leaves[middle:]
