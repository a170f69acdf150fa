"""`schedctl catalog`: which catalogs count, how to get a newer one, and how to publish one."""

from __future__ import annotations

import click

from schedkit.cli import Verb, VerbGroup

VERBS = {
    "show": Verb(
        "schedkit.schedctl.verbs.catalog.show:command", "Show which catalogs count, or one scheduler."
    ),
    "update": Verb(
        "schedkit.schedctl.verbs.catalog.update:command", "Keep a newer catalog above the shipped one."
    ),
    "publish": Verb(
        "schedkit.schedctl.verbs.catalog.publish:command", "Store a catalog in a registry, for others."
    ),
}


@click.group(cls=VerbGroup, verbs=VERBS)
def group() -> None:
    """Show, update or publish the catalog that gives schedulers short names."""
