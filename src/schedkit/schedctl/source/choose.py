"""Which image a user means by a word: a name of the catalog, or an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from schedkit.model.images.references import Reference, parse_reference

if TYPE_CHECKING:
    from schedkit.model.catalog import Listed
    from schedkit.model.images.configs import ImageConfig


class Chosen(msgspec.Struct, frozen=True):
    """An image, and what the catalog says about it if it was named by the catalog."""

    reference: Reference
    listed: Listed | None
    kin: Listed | None = None  # the entry of the same repository, for an image that was named itself


def choose_image(catalog: Mapping[str, Listed], word: str, *, version: str | None = None) -> Chosen:
    """The image of that name; `version` takes the place of any tag and digest it has."""
    listed = _listed(catalog, word) if catalog or "/" not in word else None
    reference = parse_reference(listed.entry.image_uri if listed else word)
    meant = msgspec.structs.replace(reference, tag=version, digest=None) if version else reference
    return Chosen(meant, listed, None if listed else _kin(catalog, reference))


def needs_tracing(chosen: Chosen, config: ImageConfig | None) -> bool:
    """Whether it must see what the kernel can trace: the image's own word, else the catalog's, else no."""
    if config is not None and config.needs_tracing is not None:
        return config.needs_tracing
    known = chosen.listed or chosen.kin
    return bool(known and known.entry.needs and known.entry.needs.tracing)


def _kin(catalog: Mapping[str, Listed], reference: Reference) -> Listed | None:
    """The entry whose images are in the same repository, whatever their tags."""
    mine = reference.repository
    return next(
        (each for each in catalog.values() if parse_reference(each.entry.image_uri).repository == mine), None
    )


def _listed(catalog: Mapping[str, Listed], word: str) -> Listed | None:
    from schedkit.model.catalog import choose  # noqa: PLC0415 - what is named as an image needs no catalog

    return choose(catalog, word)
