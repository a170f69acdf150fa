"""`schedctl list`: the schedulers of the catalog."""

from __future__ import annotations

import click

from schedkit.schedctl.answers.answer import Answer, Table, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.catalog_facts import Facts, answer, facts
from schedkit.schedctl.wiring import catalogs

_HEADINGS = ("NAME", "KERNEL", "STATS", "PRESETS", "MEASURED", "IMAGE", "DESCRIPTION")


class Listing(Result, frozen=True, kw_only=True):
    """Every scheduler that has a name, sorted by it."""

    schedulers: tuple[Facts, ...]


@click.command()
@click.option("--wide", is_flag=True, help="Also show what is known about each scheduler.")
@click.pass_obj
@answering
def command(settings: Settings, *, wide: bool) -> Answer:
    """List the schedulers in the catalog, one name per line."""
    listing = Listing(schedulers=tuple(facts(listed) for listed in catalogs.catalog(settings).values()))
    return Answer(listing, [_table(listing)] if wide else [each.name for each in listing.schedulers])


def _table(listing: Listing) -> Table:
    return Table(_HEADINGS, [_row(known) for known in listing.schedulers])


def _row(known: Facts) -> tuple[str, ...]:
    return (
        known.name,
        known.min_kernel or "-",
        answer(known.stats, "yes", "no"),
        ",".join(known.presets) or "-",
        answer(known.measured, "yes", "no"),
        known.image,
        known.description or "-",
    )
