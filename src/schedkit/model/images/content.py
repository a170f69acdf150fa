"""Bytes with the descriptor that names them."""

from __future__ import annotations

import hashlib

import msgspec

from schedkit.model.images import manifests
from schedkit.model.images.references import Descriptor, Digest


class Content(msgspec.Struct, frozen=True):
    """Bytes whose digest, size and media type are those of the descriptor."""

    descriptor: Descriptor
    data: bytes


def digest_of(data: bytes) -> Digest:
    """The digest of these bytes."""
    return Digest(f"sha256:{hashlib.sha256(data).hexdigest()}")


def content_of(data: bytes, media_type: str = manifests.IMAGE_MANIFEST) -> Content:
    """Bytes made here, with the descriptor that fits them."""
    return Content(Descriptor(media_type, digest_of(data), len(data)), data)
