"""`schedctl catalog publish`: a catalog as an artifact of a registry, for others to update from."""

from __future__ import annotations

from pathlib import Path

import click

from schedkit.model.catalog import MEDIA_TYPE
from schedkit.oci.images.artifacts import pack_artifact
from schedkit.oci.images.packing import push
from schedkit.schedctl.answers.answer import Answer, Fields, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source import catalog_files
from schedkit.schedctl.source.destinations import parse_new_image, require_layout
from schedkit.schedctl.wiring import registries


class CatalogPublished(Result, frozen=True, kw_only=True):
    """Where the catalog is now, and what it is known by."""

    image: str
    digest: str  # what to sign
    sha256: str  # of the catalog itself, for those who have no signature
    place: str
    schedulers: int


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--image", required=True, metavar="REFERENCE", help="Name for the catalog, with a tag.")
@click.option(
    "--to",
    metavar="oci:FOLDER",
    help="Store the result in this OCI layout, not in the registry that --image names.",
)
@click.pass_obj
@answering
def command(settings: Settings, file: Path, image: str, to: str | None) -> Answer:
    """Check a catalog, and store it in a registry. Sign its digest afterwards."""
    reference = parse_new_image(image)
    require_layout(to)
    text = catalog_files.read_file(file)
    entries = catalog_files.parse_named(text, str(file))
    packed = pack_artifact(text, MEDIA_TYPE, title="catalog.json")
    with attempting(f"store {reference}"), registries.target(settings, to) as target:
        push(target, packed, reference)
    published = CatalogPublished(
        image=str(reference),
        digest=packed.top.descriptor.digest,
        sha256=catalog_files.sha256(text),
        place=to or reference.repository.registry,
        schedulers=len(entries),
    )
    return Answer(published, [_text(published)])


def _text(published: CatalogPublished) -> Fields:
    return Fields(
        [
            ("Catalog", f"{published.image}, {published.schedulers} schedulers"),
            ("Digest", published.digest),
            ("SHA256", published.sha256),
            ("Stored in", published.place),
        ]
    )
