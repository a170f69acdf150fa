"""`schedctl package`: a scheduler's program as a labelled image, without a container engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from schedkit.model.images.configs import MIN_KERNEL, OCI
from schedkit.model.images.references import Reference
from schedkit.oci.images.packing import Contents, Packed, pack, push
from schedkit.schedctl.answers.answer import Answer, Fields, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.problems.problem import Problem, attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.destinations import parse_new_image, require_layout
from schedkit.schedctl.verbs.images.elf_libraries import collect, read_program
from schedkit.schedctl.wiring import registries

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_KERNEL = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?")
_EXAMPLES = {"name of a program": "scx_mini", "version of a kernel": "6.12"}


class Packaged(Result, frozen=True, kw_only=True):
    """The image that was made."""

    image: str
    digest: str
    place: str  # the registry, or the folder of a layout
    platforms: tuple[str, ...]
    entrypoint: str
    labels: Mapping[str, str]
    size: int  # bytes, of everything


@dataclass(frozen=True, slots=True)
class _Wish:
    """How the image presents its program."""

    name: str
    labels: Mapping[str, str]
    arguments: tuple[str, ...]
    libraries: Sequence[Path]


@click.command()
@click.argument("programs", nargs=-1, required=True, metavar="PROGRAM...", type=click.Path(path_type=Path))
@click.option("--image", required=True, metavar="REFERENCE", help="Name for the image, with a tag.")
@click.option(
    "--to",
    metavar="oci:FOLDER",
    help="Store the result in this OCI layout, not in the registry that --image names.",
)
@click.option("--name", help="The program's name in the image.  [default: the file's name]")
@click.option(
    "--version", "version", metavar="TEXT", help="The program's version.  [default: the image's tag]"
)
@click.option("--description", help="One line about the scheduler.")
@click.option("--documentation", metavar="URL", help="Page that explains the scheduler.")
@click.option("--source", metavar="URL", help="Place of the scheduler's source code.")
@click.option(
    "--min-kernel",
    default="6.12",
    show_default=True,
    help="The oldest kernel that the scheduler runs on.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A further label.")
@click.option("--arg", "arguments", multiple=True, metavar="WORD", help="A flag to start the program with.")
@click.option(
    "--libraries",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder with libraries of a dynamically linked program.",
)
@click.pass_obj
@answering
def command(
    settings: Settings,
    programs: tuple[Path, ...],
    image: str,
    to: str | None,
    name: str | None,
    libraries: tuple[Path, ...],
    arguments: tuple[str, ...],
    **described: str | tuple[str, ...] | None,
) -> Answer:
    """Make an image from a scheduler's program; give one program for each platform.

    The same programs and labels give the same image, byte for byte.
    """
    reference = parse_new_image(image)
    require_layout(to)
    called = _fitting(_NAME, name or programs[0].name, "name of a program")
    wish = _Wish(called, _labels(called, reference, described), arguments, libraries)
    packed = pack(_contents(programs, wish))
    with attempting(f"store {reference}"), registries.target(settings, to) as target:
        push(target, packed, reference)
    packaged = _describe(packed, reference, wish, to)
    return Answer(packaged, [_text(packaged)])


def _labels(
    name: str, reference: Reference, described: Mapping[str, str | tuple[str, ...] | None]
) -> dict[str, str]:
    known = {
        f"{OCI}.title": name,
        f"{OCI}.version": described["version"] or reference.tag,
        f"{OCI}.description": described["description"],
        f"{OCI}.documentation": described["documentation"],
        f"{OCI}.source": described["source"],
        MIN_KERNEL: _fitting(_KERNEL, str(described["min_kernel"]), "version of a kernel"),
    }
    others = dict(_pair(label) for label in described["labels"] or ())
    return {key: value for key, value in known.items() if isinstance(value, str)} | others


def _fitting(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise Problem(f"{text!r} cannot be the {what}", remedy=f"write something like {_EXAMPLES[what]}")
    return text


def _pair(label: str) -> tuple[str, str]:
    key, equals, value = label.partition("=")
    if not (key and equals):
        raise Problem(f"{label!r} is not a label", remedy="write KEY=VALUE")
    return key, value


def _contents(programs: Sequence[Path], wish: _Wish) -> list[Contents]:
    made = [_content(file, wish) for file in programs]
    platforms = [str(each.platform) for each in made]
    twice = next((platform for platform in platforms if platforms.count(platform) > 1), None)
    if twice:
        remedy = "give one program for each platform"
        why = f"two of them are for {twice}"
        raise Problem("these programs do not fit into one image", why=why, remedy=remedy)
    return made


def _content(file: Path, wish: _Wish) -> Contents:
    data, program = read_program(file)
    found = collect(file, program, wish.libraries)
    return Contents(
        wish.name, data, program.platform, wish.labels, wish.arguments, found.libraries, found.interpreter
    )


def _describe(packed: Packed, reference: Reference, wish: _Wish, to: str | None) -> Packaged:
    return Packaged(
        image=str(reference),
        digest=packed.top.descriptor.digest,
        place=to or reference.repository.registry,
        platforms=packed.platforms,
        entrypoint=f"/usr/bin/{wish.name}",
        labels=dict(sorted(wish.labels.items())),
        size=sum(part.descriptor.size for part in (*packed.blobs, *packed.manifests)),
    )


def _text(packaged: Packaged) -> Fields:
    return Fields(
        [
            ("Image", packaged.image),
            ("Digest", packaged.digest),
            ("Stored in", packaged.place),
            ("Platforms", ", ".join(packaged.platforms)),
            ("Starts", packaged.entrypoint),
            ("Labels", "\n".join(f"{key}={value}" for key, value in packaged.labels.items())),
        ]
    )
