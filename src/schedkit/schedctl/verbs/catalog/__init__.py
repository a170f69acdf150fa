"""`schedctl catalog`: which catalogs count, how to get a newer one, and how to publish one.

`list` is the verb `schedctl list`, of what the catalogs offer.
"""

from __future__ import annotations

import click

from schedkit.cli import Verb, VerbGroup

VERBS = {
    "show": Verb(
        "schedkit.schedctl.verbs.catalog.show:command", "Show the catalogs in use, or one scheduler."
    ),
    "update": Verb(
        "schedkit.schedctl.verbs.catalog.update:command",
        "Fetch a newer catalog, whose entries override the shipped catalog.",
    ),
    "publish": Verb(
        "schedkit.schedctl.verbs.catalog.publish:command", "Check a catalog, and store it in a registry."
    ),
}


@click.group(cls=VerbGroup, verbs=VERBS)
def group() -> None:
    """Show, update or publish the catalog that gives schedulers short names."""
