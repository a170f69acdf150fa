"""`schedctl mirror`: images with their signatures into another registry, or into a folder."""

from __future__ import annotations

import sys

import click
import msgspec

from schedkit.model.images.references import DEFAULT_TAG, Reference, Repository
from schedkit.oci.images.copying import Copied, copy
from schedkit.schedctl.answers.answer import Answer, Table, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.completions import complete_images
from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.choose import choose_image
from schedkit.schedctl.source.destinations import layout_folder, parse_prefix
from schedkit.schedctl.wiring import catalogs, registries


class MirroredImage(msgspec.Struct, frozen=True, kw_only=True):
    """One image, and what speaks for it."""

    image: str
    to: str
    digest: str
    signatures: int  # whatever refers to the image: signatures, attestations
    bytes: int  # of all of it
    copied_bytes: int  # of what was not there before


class Mirrored(Result, frozen=True, kw_only=True):
    """What is now there, too."""

    place: str
    images: tuple[MirroredImage, ...]


@click.command()
@click.argument("images", nargs=-1, required=True, metavar="NAME|IMAGE...", shell_complete=complete_images)
@click.option("--to", required=True, metavar="REGISTRY[/PREFIX]|oci:FOLDER", help="Where to put the copies.")
@click.option("--version", "version", metavar="TAG", help="Use this version, not the catalog's.")
@click.pass_obj
@answering
def command(settings: Settings, images: tuple[str, ...], to: str, version: str | None) -> Answer:
    """Copy images with all platforms and signatures into another registry or an OCI layout.

    In a registry an image keeps its path, below PREFIX; in a layout it keeps its whole name.
    """
    catalog = catalogs.catalog(settings)
    chosen = [choose_image(catalog, image, version=version).reference for image in images]
    copies = [(reference, _mirror(settings, reference, to)) for reference in chosen]
    described = (_describe(reference, destination(reference, to), copied) for reference, copied in copies)
    mirrored = Mirrored(place=to, images=tuple(described))
    warnings = [warning for _, copied in copies for warning in copied.warnings]
    return Answer(mirrored, [_table(mirrored)], warnings=warnings)


def _mirror(settings: Settings, reference: Reference, to: str) -> Copied:
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(f"copying {reference} …", err=True)
    with (
        attempting(f"copy {reference}"),
        registries.source(settings) as source,
        registries.target(settings, to) as target,
    ):
        return copy(source, target, reference, destination(reference, to))


def destination(reference: Reference, to: str) -> Reference:
    """What the copy is called; an image that was named by a digest alone gets no tag."""
    tag = reference.tag or (None if reference.digest else DEFAULT_TAG)
    if layout_folder(to) is not None:
        return msgspec.structs.replace(reference, tag=tag)
    prefix = parse_prefix(to)
    path = "/".join(filter(None, (prefix.path, reference.repository.path)))
    return Reference(Repository(prefix.registry, path), tag=tag)


def _describe(reference: Reference, there: Reference, copied: Copied) -> MirroredImage:
    return MirroredImage(
        image=str(reference),
        to=str(msgspec.structs.replace(there, digest=None)),
        digest=copied.digest,
        signatures=len(copied.referrers) + len(copied.tags),
        bytes=copied.total_bytes,
        copied_bytes=copied.moved_bytes,
    )


def _table(mirrored: Mirrored) -> Table:
    rows = [
        (each.image, each.to, str(each.signatures), f"{each.copied_bytes} of {each.bytes}")
        for each in mirrored.images
    ]
    return Table(("IMAGE", "COPY", "SIGNATURES", "BYTES COPIED"), rows)
