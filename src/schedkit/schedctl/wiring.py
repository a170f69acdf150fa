"""Where `schedctl` is put together: nothing else constructs what talks to the outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from schedkit.model.catalog import MAX_BYTES, Layer, Listed, stack
from schedkit.schedctl import catalogs
from schedkit.schedctl.settings import Settings

if TYPE_CHECKING:
    from schedkit.oci.registry import Registry


def layers(settings: Settings) -> list[Layer]:
    """The catalogs that count, from the lowest to the highest."""
    copy = catalogs.updated(catalogs.kept(os.environ), uid=os.geteuid())
    named = settings.catalog
    chosen = Layer(named, catalogs.parse_named(read_anywhere(named), named)) if named else None
    return [layer for layer in (catalogs.shipped(), copy, chosen) if layer is not None]


def catalog(settings: Settings) -> dict[str, Listed]:
    """All schedulers by name."""
    return stack(layers(settings))


def read_anywhere(place: str) -> bytes:
    """What lies at a path or URL, at most one byte more than a catalog may have."""
    if "://" not in place:
        return catalogs.read_file(Path(place))
    from schedkit.schedctl import fetching  # noqa: PLC0415 - an HTTP client is only for those who name a URL

    return fetching.fetch(place, limit=MAX_BYTES)


def registry(settings: Settings) -> Registry:
    """Every registry there is, as the user may reach it."""
    from schedkit.oci import registry as oci  # noqa: PLC0415 - as above

    ca_file = Path(settings.registry_ca) if settings.registry_ca else None
    return oci.Registry(oci.Settings(insecure=settings.insecure_registries, ca_file=ca_file))
