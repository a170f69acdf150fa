"""`schedctl info`: what an image says about itself, and what the catalog knows about it."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from schedkit.model.images.configs import MIN_KERNEL, OCI, platform_of
from schedkit.oci.images.inspection import Inspected, inspect
from schedkit.schedctl.answers.answer import Answer, Block, Fields, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.completions import complete_images
from schedkit.schedctl.problems.problem import attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.catalog_facts import Facts, facts, rows
from schedkit.schedctl.source.choose import Chosen, choose_image
from schedkit.schedctl.wiring import catalogs, registries


class ImageInfo(Result, frozen=True, kw_only=True):
    """An image as its registry has it now. Labels and size are those of `platform`."""

    image: str
    digest: str
    platforms: tuple[str, ...]
    platform: str
    size: int  # bytes to fetch
    version: str | None
    min_kernel: str | None  # by the image's own label, else by the catalog
    labels: Mapping[str, str]
    catalog: Facts | None  # None: the image was not named by the catalog


@click.command()
@click.argument("image", metavar="NAME|IMAGE", shell_complete=complete_images)
@click.option("--version", "version", metavar="TAG", help="Use this version, not the catalog's.")
@click.pass_obj
@answering
def command(settings: Settings, image: str, version: str | None) -> Answer:
    """Show a scheduler's labels, platforms, digest and minimum kernel."""
    chosen = choose_image(catalogs.catalog(settings), image, version=version)
    with attempting(f"inspect {chosen.reference}"), registries.source(settings) as source:
        inspected = inspect(source, chosen.reference, platform_of(os.uname().machine))
    info = describe(chosen, inspected)
    return Answer(info, text(info))


def describe(chosen: Chosen, inspected: Inspected) -> ImageInfo:
    """What was found out, in the words of answers."""
    known = facts(chosen.listed) if chosen.listed else None
    labels = inspected.config.labels
    return ImageInfo(
        image=str(chosen.reference),
        digest=inspected.digest,
        platforms=tuple(map(str, inspected.platforms)),
        platform=str(inspected.config.platform),
        size=inspected.size,
        version=labels.get(f"{OCI}.version"),
        min_kernel=labels.get(MIN_KERNEL) or (known.min_kernel if known else None),
        labels=dict(sorted(labels.items())),
        catalog=known,
    )


def text(info: ImageInfo) -> list[Block]:
    """As a person reads it."""
    image = [
        ("Image", info.image),
        ("Digest", info.digest),
        ("Platforms", ", ".join(info.platforms)),
        ("Size", f"{info.size} bytes for {info.platform}"),
        ("Version", info.version or "not labelled"),
        ("Kernel", f"{info.min_kernel} or newer" if info.min_kernel else "not known"),
        ("Labels", "\n".join(f"{name}={value}" for name, value in info.labels.items()) or "none"),
    ]
    if info.catalog is None:
        return [Fields(image)]
    return [Fields(image), "", f"The catalog says about {info.catalog.name}:", Fields(rows(info.catalog))]
