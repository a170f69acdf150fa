"""Which image a user means by a word: a name of the catalog, or an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from schedkit.model.catalog import Listed, choose
from schedkit.model.images import Reference, parse_reference


@dataclass(frozen=True, slots=True)
class Chosen:
    """An image, and what the catalog says about it if it was named by the catalog."""

    reference: Reference
    listed: Listed | None


def choose_image(catalog: Mapping[str, Listed], word: str, *, version: str | None = None) -> Chosen:
    """The image of that name; `version` takes the place of any tag and digest it has."""
    listed = choose(catalog, word)
    reference = parse_reference(listed.entry.image_uri if listed else word)
    return Chosen(replace(reference, tag=version, digest=None) if version else reference, listed)
