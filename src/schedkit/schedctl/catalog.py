"""`schedctl catalog`: which catalogs count, and a newer one in the place of the updated copy."""

from __future__ import annotations

import click

from schedkit.cli import Verb, VerbGroup

VERBS = {
    "show": Verb("schedkit.schedctl.catalog_show:command", "Show which catalogs count, or one scheduler."),
    "update": Verb("schedkit.schedctl.catalog_update:command", "Keep a newer catalog above the shipped one."),
}


@click.group(cls=VerbGroup, verbs=VERBS)
def group() -> None:
    """Show or update the catalog that gives schedulers short names."""
