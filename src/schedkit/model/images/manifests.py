"""Image manifests and indexes, read so strictly that nobody can read the same bytes as something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from schedkit.model.images import strictjson
from schedkit.model.images.references import Descriptor, MediaType, Platform, shown
from schedkit.model.images.strictjson import InvalidDocument

IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFEST_TYPES = (IMAGE_MANIFEST, DOCKER_MANIFEST)
INDEX_TYPES = (IMAGE_INDEX, DOCKER_INDEX)
EMPTY_CONFIG = "application/vnd.oci.empty.v1+json"

LARGEST_MANIFEST = 4 * 1024 * 1024
MOST_ENTRIES = 4096
_LONGEST_TYPE = 255


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """One image or artifact."""

    schema_version: Literal[2]
    config: Descriptor
    layers: tuple[Descriptor, ...] = ()
    media_type: MediaType | None = None
    artifact_type: str | None = None
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}


class Index(msgspec.Struct, frozen=True, rename="camel"):
    """A list of manifests: an image's platforms, or what refers to an image."""

    schema_version: Literal[2]
    manifests: tuple[Descriptor, ...] = ()
    media_type: MediaType | None = None
    artifact_type: str | None = None
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}


class NoSuchPlatform(ValueError):  # noqa: N818  # it says what is missing
    """An index without an image for that platform; the message names what it offers."""


def parse(data: bytes, media_type: str) -> Manifest | Index:
    """The manifest or index in these bytes, which were served as `media_type`.

    Raises `InvalidDocument` for bytes that could be taken for both, and when they call themselves otherwise.
    """
    if media_type not in MANIFEST_TYPES + INDEX_TYPES:
        raise InvalidDocument(f"{media_type!r} is neither an image manifest nor an index")
    return parse_index(data, media_type) if media_type in INDEX_TYPES else parse_manifest(data, media_type)


def parse_manifest(data: bytes, media_type: str = IMAGE_MANIFEST) -> Manifest:
    """The manifest in these bytes; raises `InvalidDocument` when it could also be read as an index."""
    return _manifest(_read(data), media_type)


def parse_index(data: bytes, media_type: str = IMAGE_INDEX) -> Index:
    """The index in these bytes; raises `InvalidDocument` when it could also be read as a manifest."""
    return _index(_read(data), media_type)


def media_type_of(data: bytes, *, served_as: str | None) -> str:
    """What a manifest or index is, by its own word or its server's, which may not differ, else by its fields.

    Raises `InvalidDocument` as `parse` does.
    """
    tree = _read(data)
    own = tree.get("mediaType")
    if own is not None and served_as is not None and own != served_as:
        raise InvalidDocument(
            f"the manifest calls itself {shown(str(own))}, but was served as {shown(served_as)}"
        )
    found = own or served_as or (IMAGE_INDEX if "manifests" in tree else IMAGE_MANIFEST)
    if found not in MANIFEST_TYPES + INDEX_TYPES:
        raise InvalidDocument(f"{shown(str(found))} is neither an image manifest nor an index")
    if found in INDEX_TYPES:
        _index(tree, found)
    else:
        _manifest(tree, found)
    return str(found)


def _read(data: bytes) -> dict[str, Any]:
    return strictjson.read_object(data, what="the manifest")


def _manifest(tree: dict[str, Any], media_type: str) -> Manifest:
    _refuse_ambiguous(tree, media_type, foreign=("manifests", "fsLayers"))
    manifest = strictjson.shaped(tree, Manifest, what="the manifest")
    _refuse_crowd(manifest.layers)
    return manifest


def _index(tree: dict[str, Any], media_type: str) -> Index:
    _refuse_ambiguous(tree, media_type, foreign=("config", "layers", "fsLayers"))
    index = strictjson.shaped(tree, Index, what="the index")
    _refuse_crowd(index.manifests)
    return index


def render_index(entries: Iterable[Descriptor]) -> bytes:
    """An index of these entries; equal entries give equal bytes. `InvalidDocument`: nobody would read it."""
    listed = list(entries)
    data = strictjson.encode({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": listed})
    if len(data) > LARGEST_MANIFEST or len(listed) > MOST_ENTRIES:
        size = f"{len(listed)} entries in {len(data)} bytes"
        limit = f"{MOST_ENTRIES} entries in {LARGEST_MANIFEST} bytes"
        raise InvalidDocument(f"the index has {size}; the limit is {limit}")
    return data


def render_manifest(
    *,
    config: Descriptor,
    layers: Iterable[Descriptor] = (),
    artifact_type: str | None = None,
    subject: Descriptor | None = None,
    annotations: Mapping[str, str] | None = None,
) -> bytes:
    """A manifest of these parts; equal parts give equal bytes."""
    fields = {
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "artifactType": artifact_type,
        "config": config,
        "layers": list(layers),
        "subject": subject,
        "annotations": dict(sorted(annotations.items())) if annotations else None,
    }
    return strictjson.encode({name: value for name, value in fields.items() if value is not None})


def referrer_entry(descriptor: Descriptor, manifest: Manifest | Index) -> Descriptor:
    """How a list of referrers describes one of them; its annotations stay in it, where they harm no list."""
    config_type = manifest.config.media_type if isinstance(manifest, Manifest) else None
    return Descriptor(
        descriptor.media_type,
        descriptor.digest,
        descriptor.size,
        artifact_type=_short(manifest.artifact_type or config_type),
    )


def bare_entry(entry: Descriptor) -> Descriptor:
    """An entry of a list that strangers wrote, without what they may have written at length."""
    return Descriptor(entry.media_type, entry.digest, entry.size, artifact_type=_short(entry.artifact_type))


def _short(name: str | None) -> str | None:
    return name if name is None or len(name) <= _LONGEST_TYPE else None


def select_platform(index: Index, wanted: Platform) -> Descriptor:
    """The index's first manifest for the platform; an entry without a variant fits each."""
    fitting = [entry for entry in index.manifests if entry.platform and _fits(entry.platform, wanted)]
    exact = [entry for entry in fitting if entry.platform == wanted]
    if fitting:
        return (exact or fitting)[0]
    offered = sorted({str(entry.platform) for entry in index.manifests if entry.platform})
    offer = f"it offers {', '.join(offered[:20])}" if offered else "it names no platforms"
    raise NoSuchPlatform(f"the image does not exist for {wanted}: {offer}")


def _fits(offered: Platform, wanted: Platform) -> bool:
    same = (offered.os, offered.architecture) == (wanted.os, wanted.architecture)
    return same and (offered.variant == wanted.variant or not offered.variant or not wanted.variant)


def _refuse_ambiguous(tree: Mapping[str, Any], media_type: str, *, foreign: tuple[str, ...]) -> None:
    """Some readers take `Layers` for `layers`: what they would see must be what we see."""
    twice = _twice_in_other_capitals(tree)
    if twice is not None:
        raise InvalidDocument(f"the manifest has {shown(twice)} twice, with different capitals")
    names = {name.casefold(): name for name in tree}
    own = tree.get(names.get("mediatype", ""))
    if own is not None and own != media_type:
        raise InvalidDocument(
            f"the manifest calls itself {shown(str(own))}, but was served as {media_type!r}"
        )
    both = [name for name in foreign if name.casefold() in names]
    if both:
        raise InvalidDocument(f"the manifest was served as {media_type!r}, but has {both[0]!r}")


def _twice_in_other_capitals(value: object) -> str | None:
    """A name that an object has twice but for its capitals; None: no object has. Annotations are free."""
    if isinstance(value, list):
        inside = value
    elif isinstance(value, dict):
        twice = strictjson.repeated(name.casefold() for name in value)
        if twice is not None:
            return twice
        inside = [part for name, part in value.items() if name != "annotations"]
    else:
        return None
    return next((found for each in inside if (found := _twice_in_other_capitals(each)) is not None), None)


def _refuse_crowd(entries: tuple[Descriptor, ...]) -> None:
    if len(entries) > MOST_ENTRIES:
        raise InvalidDocument(f"the manifest has {len(entries)} entries; the limit is {MOST_ENTRIES}")
