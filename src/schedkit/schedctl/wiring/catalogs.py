"""The catalogs that count, and where each is read from."""

from __future__ import annotations

import os
from pathlib import Path

from schedkit.model.catalog import MAX_BYTES, Layer, Listed, stack
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source import catalog_files


def layers(settings: Settings) -> list[Layer]:
    """The catalogs that count, from the lowest to the highest."""
    copy = catalog_files.updated(catalog_files.kept(os.environ))
    named = settings.catalog
    chosen = Layer(named, catalog_files.parse_named(_read_named(settings, named), named)) if named else None
    return [layer for layer in (catalog_files.shipped(), copy, chosen) if layer is not None]


def catalog(settings: Settings) -> dict[str, Listed]:
    """All schedulers by name."""
    return stack(layers(settings))


def catalog_for(settings: Settings, *words: str) -> dict[str, Listed]:
    """All schedulers by name; none where every word is an image, which no name of a catalog can be."""
    return {} if all("/" in word for word in words) else catalog(settings)


def _read_named(settings: Settings, place: str) -> bytes:
    """As `read_anywhere`, for what is obeyed as it stands: it says which images names mean."""
    return read_anywhere(settings, place) if "://" in place else catalog_files.read_obeyed(Path(place))


def read_anywhere(settings: Settings, place: str) -> bytes:
    """What lies at a path or URL; of a file at most one byte more than a catalog may have."""
    if "://" not in place:
        return catalog_files.read_file(Path(place))
    # late: an HTTP client is only for those who name a URL
    from schedkit.schedctl.wiring import registries  # noqa: PLC0415

    return registries.fetch(settings, place, limit=MAX_BYTES)
