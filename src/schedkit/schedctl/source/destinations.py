"""Where images go: to a registry, or to an OCI layout, written `oci:FOLDER`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from schedkit.model.images.references import (
    InvalidReference,
    Reference,
    Repository,
    canonical_registry,
    parse_reference,
    parse_repository,
)
from schedkit.schedctl.problems.problem import Problem

_LAYOUT = "oci:"


def layout_folder(place: str) -> Path | None:
    """The layout's folder, or None when the place is a registry."""
    if not place.startswith(_LAYOUT):
        return None
    folder = place.removeprefix(_LAYOUT)
    if not folder:
        raise Problem(f"{place!r} names no folder", remedy="write oci:FOLDER")
    return Path(folder)


def require_layout(place: str | None) -> None:
    """Refuse any place but a layout; None is the registry that an image's name begins with."""
    if place is not None and layout_folder(place) is None:
        remedy = "write oci:FOLDER, or leave out --to: then the image goes to the registry in its name"
        raise Problem(f"{place!r} is not an OCI layout", remedy=remedy)


def parse_new_image(image: str) -> Reference:
    """The name of an image that is to be made: with a tag, and without a digest, which is not known yet."""
    reference = parse_reference(image)
    if reference.tag is None or reference.digest is not None:
        remedy = "write registry/path:tag, without a digest"
        raise Problem(f"{image} cannot be the name of a new image", remedy=remedy)
    return reference


def parse_prefix(place: str) -> Repository:
    """A registry, and the path below which images are kept; the path may be empty."""
    remedy = "write a registry such as registry.example:5000, registry.example/mirror, or oci:FOLDER"
    registry, _, path = place.rstrip("/").partition("/")
    try:
        read = parse_repository(f"{registry}/{path or 'x'}")
    except InvalidReference as error:
        raise Problem(f"{place!r} is not a place for images", why=str(error), remedy=remedy) from error
    if read.registry != canonical_registry(registry):
        why = f"{registry!r} is not a registry"
        raise Problem(f"{place!r} is not a place for images", why=why, remedy=remedy)
    return Repository(read.registry, path)


def parse_mirrors(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Copies by what they are copies of, from words such as `ghcr.io=registry.example/mirror`."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        origin, equals, copy = word.partition("=")
        if not equals:
            raise Problem(
                f"{word!r} is not a mirror", remedy="write ORIGIN=COPY, such as ghcr.io=registry.example/ghcr"
            )
        meant, place = (_prefix_text(parse_prefix(side)) for side in (origin, copy))
        found[meant] = (*found.get(meant, ()), place)
    return found


def refuse_login(url: str) -> None:
    """Let no URL with a login pass: it would be kept and shown where others can read it."""
    if "://" in url and "@" in url.partition("://")[2].partition("/")[0]:
        remedy = "leave out the login; no login is sent to fetch a file"
        raise Problem("the URL contains a login", remedy=remedy)


def _prefix_text(prefix: Repository) -> str:
    return str(prefix).rstrip("/")
