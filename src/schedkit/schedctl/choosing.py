"""Which image a user means by a word: a name of the catalog, or an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from schedkit.model.images import Reference, parse_reference

if TYPE_CHECKING:
    from schedkit.model.catalog import Listed


class Chosen(msgspec.Struct, frozen=True):
    """An image, and what the catalog says about it if it was named by the catalog."""

    reference: Reference
    listed: Listed | None


def choose_image(catalog: Mapping[str, Listed], word: str, *, version: str | None = None) -> Chosen:
    """The image of that name; `version` takes the place of any tag and digest it has."""
    listed = _listed(catalog, word) if catalog or "/" not in word else None
    reference = parse_reference(listed.entry.image_uri if listed else word)
    return Chosen(
        msgspec.structs.replace(reference, tag=version, digest=None) if version else reference, listed
    )


def _listed(catalog: Mapping[str, Listed], word: str) -> Listed | None:
    from schedkit.model.catalog import choose  # noqa: PLC0415 - what is named as an image needs no catalog

    return choose(catalog, word)
