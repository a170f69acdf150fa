"""What a shell offers while somebody types: names of the catalog, and our containers.

It is asked at every press of a key: it never fails, asks no network, and is silent where it cannot look.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

import click

from schedkit.schedctl.settings.table import Settings


def complete_images(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - as click calls it
    """Names of the shipped catalog and of the updated copy; one at a URL would have to be fetched."""
    names: set[str] = set()
    with suppress(Exception):
        from schedkit.schedctl.source import catalog_files  # noqa: PLC0415 - only when a name is completed

        layers = (catalog_files.shipped(), catalog_files.updated(catalog_files.kept(os.environ)))
        names |= {name for layer in layers if layer for name in layer.entries}
    return _beginning(names, incomplete)


def complete_containers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """Names of our containers, in every runtime that answers."""
    names: set[str] = set()
    with suppress(Exception):
        from schedkit.schedctl import wiring  # noqa: PLC0415 - as above

        said = {name: value for name, value in ctx.find_root().params.items() if name in Settings._fields}
        for runtime in wiring.runtimes(Settings(**said)).values():
            with suppress(Exception):
                names |= {container.name for container in runtime.containers()}
    return _beginning(names, incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
