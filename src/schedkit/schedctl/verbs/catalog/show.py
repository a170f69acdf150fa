"""`schedctl catalog show`: the catalogs that count, or what they say about one scheduler. No network."""

from __future__ import annotations

import os

import click
import msgspec

from schedkit.model.catalog import Layer, UnknownName, choose, stack
from schedkit.schedctl.answers.answer import Answer, Block, Fields, Table, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.completions import complete_images
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source import catalog_files
from schedkit.schedctl.source.catalog_facts import Facts, facts, rows
from schedkit.schedctl.source.catalog_files import Provenance
from schedkit.schedctl.wiring import catalogs


class LayerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One catalog."""

    origin: str
    schedulers: int
    provenance: Provenance | None = None  # of the updated copy: where it came from


class CatalogShown(Result, frozen=True, kw_only=True):
    """The catalogs, lowest first: an entry of a later one replaces that of an earlier one."""

    layers: tuple[LayerFacts, ...]
    scheduler: Facts | None = None  # the one that was asked for


@click.command()
@click.argument("name", required=False, shell_complete=complete_images)
@click.pass_obj
@answering
def command(settings: Settings, name: str | None) -> Answer:
    """Show the catalogs in use or, with NAME, what they know about that scheduler."""
    layers = catalogs.layers(settings)
    found = tuple(_layer(layer) for layer in layers)
    if name is None:
        return Answer(CatalogShown(layers=found), _text(found))
    listed = choose(stack(layers), name)
    if listed is None:
        raise UnknownName(f"{name!r} is an image, not a name in the catalog. `schedctl info` shows images")
    known = facts(listed)
    shown = Fields([("Name", known.name), ("Image", known.image), *rows(known)])
    return Answer(CatalogShown(layers=found, scheduler=known), [shown])


def _layer(layer: Layer) -> LayerFacts:
    is_copy = layer.origin == catalog_files.UPDATED
    provenance = catalog_files.kept(os.environ).provenance() if is_copy else None
    return LayerFacts(origin=layer.origin, schedulers=len(layer.entries), provenance=provenance)


def _text(layers: tuple[LayerFacts, ...]) -> list[Block]:
    rows = [(layer.origin, str(layer.schedulers), _origin(layer.provenance)) for layer in layers]
    return [Table(("CATALOG", "SCHEDULERS", "FROM"), rows)]


def _origin(provenance: Provenance | None) -> str:
    if provenance is None:
        return "-"
    believed = f"signed by {provenance.signer}" if provenance.signer else f"sha256 {provenance.sha256}"
    return f"{provenance.source} ({provenance.updated}, {believed})"
