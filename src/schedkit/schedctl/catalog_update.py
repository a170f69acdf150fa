"""`schedctl catalog update`: another catalog in the place of the updated copy, once it is believed."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from schedkit.model.catalog import MAX_BYTES, MEDIA_TYPE, Entries
from schedkit.model.images import Reference, parse_reference
from schedkit.oci.artifacts import read_artifact
from schedkit.schedctl import catalogs, wiring
from schedkit.schedctl.catalogs import Provenance
from schedkit.schedctl.errors import Problem, attempting
from schedkit.schedctl.output import Answer, Fields, Result, answering
from schedkit.schedctl.settings import Settings


class CatalogUpdated(Result, frozen=True, kw_only=True):
    """What the updated copy is now, and what it changed."""

    file: str
    provenance: Provenance
    schedulers: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


@click.command()
@click.argument("source", metavar="PATH|URL|REFERENCE")
@click.option("--sha256", metavar="HEX", help="Believe the catalog because it has this checksum.")
@click.pass_obj
@answering
def command(settings: Settings, source: str, sha256: str | None) -> Answer:
    """Keep a newer catalog above the shipped one: from a file, a URL, or a registry.

    A catalog says which images names stand for, so it must be believed for a reason: its checksum.
    """
    with attempting(f"take the catalog from {source}"):
        text = _fetch(settings, source)
        provenance = _believe(source, text, sha256)
        entries = catalogs.parse_named(text, source)
    copy = catalogs.kept(os.environ)
    before = catalogs.parse_file(copy.file) if copy.file.exists() else {}
    copy.replace(entries, provenance)
    updated = compare(before, entries, provenance, copy.file)
    return Answer(updated, [_text(updated)])


def _fetch(settings: Settings, source: str) -> bytes:
    reference = as_reference(source)
    if reference is None:
        return wiring.read_anywhere(source)
    with wiring.source(settings) as images:
        return read_artifact(images, reference, MEDIA_TYPE, limit=MAX_BYTES)


def as_reference(source: str) -> Reference | None:
    """The image that is meant, or None: a URL, or a file that is there or is written as a path."""
    if "://" in source or source.startswith(("/", "./", "../")) or Path(source).exists():
        return None
    return parse_reference(source)


def _believe(source: str, text: bytes, wanted: str | None) -> Provenance:
    found = catalogs.sha256(text)
    if wanted is None:
        raise Problem(
            "the catalog is not believed",
            why="nothing says that it is genuine",
            remedy=f"compare its checksum with what its publisher says, then repeat with --sha256 {found}",
        )
    if found != wanted.lower().removeprefix("sha256:"):
        raise Problem("the catalog is not the one that was meant", why=f"its sha256 is {found}")
    return Provenance(source=source, sha256=found, updated=datetime.now(UTC).isoformat(timespec="seconds"))


def compare(before: Entries, now: Entries, provenance: Provenance, file: Path) -> CatalogUpdated:
    """What is different from the copy that was there."""
    both = before.keys() & now.keys()
    return CatalogUpdated(
        file=str(file),
        provenance=provenance,
        schedulers=len(now),
        added=tuple(sorted(now.keys() - before.keys())),
        changed=tuple(sorted(name for name in both if before[name] != now[name])),
        removed=tuple(sorted(before.keys() - now.keys())),
    )


def _text(updated: CatalogUpdated) -> Fields:
    return Fields(
        [
            ("Kept as", updated.file),
            ("From", updated.provenance.source),
            ("SHA256", updated.provenance.sha256),
            ("Added", ", ".join(updated.added) or "none"),
            ("Changed", ", ".join(updated.changed) or "none"),
            ("Removed", ", ".join(updated.removed) or "none"),
        ]
    )
