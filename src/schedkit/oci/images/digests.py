"""Bytes are what their digest says, or they are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from schedkit.model.images import manifests
from schedkit.model.images.content import Content, content_of, digest_of
from schedkit.model.images.manifests import Index
from schedkit.model.images.references import Descriptor, Digest
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import Refused, TooLarge


def read_manifest(data: bytes, *, served_as: str | None, expected: Digest | None, what: str) -> Content:
    """A manifest or index that is what it was asked for; `Refused` for everything else."""
    digest = digest_of(data)
    if expected is not None and digest != expected:
        raise Refused(f"{what} has the digest {digest}, but {expected} was requested")
    try:
        media_type = manifests.media_type_of(data, served_as=served_as)
    except InvalidDocument as error:
        raise Refused(f"{what} cannot be used: {error}") from error
    return content_of(data, media_type)


def read_index(data: bytes, *, what: str) -> Index:
    """An index; `Refused` for everything else."""
    try:
        return manifests.parse_index(data)
    except InvalidDocument as error:
        raise Refused(f"{what} cannot be used: {error}") from error


def verified(pieces: Iterable[bytes], descriptor: Descriptor, *, what: str) -> Iterator[bytes]:
    """The pieces as they come, never more than the descriptor's size; raises after the last on a mismatch."""
    hasher, received = hashlib.sha256(), 0
    for piece in pieces:
        received += len(piece)
        if received > descriptor.size:
            raise Refused(f"{what} has more than the {descriptor.size} bytes that were announced")
        hasher.update(piece)
        yield piece
    if received != descriptor.size:
        raise Refused(f"{what} has {received} bytes; {descriptor.size} were announced")
    if f"sha256:{hasher.hexdigest()}" != descriptor.digest:
        raise Refused(f"{what} was served with other content, whose digest is sha256:{hasher.hexdigest()}")


def index_of(entries: Iterable[Descriptor]) -> Content:
    """An index of these entries; `TooLarge` if it were one that nobody reads."""
    try:
        return content_of(manifests.render_index(entries), manifests.IMAGE_INDEX)
    except InvalidDocument as error:
        raise TooLarge(f"{error}. The index was not changed") from error
