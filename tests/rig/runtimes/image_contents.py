"""Images of the rig as the content that a runtime of ours loads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rig.runtimes import images
from schedkit.model.images.configs import parse_config
from schedkit.model.images.content import Content, content_of
from schedkit.model.images.manifests import parse_manifest
from schedkit.model.images.references import Descriptor
from schedkit.model.trust.verified import AllowedUnsigned
from schedkit.runtimes.image_content import ImageContent

_PIECE_BYTES = 1 << 16
UNSIGNED = AllowedUnsigned("by a test")


def content(layout: Path, repository: str = "registry.rig.test/rig/busybox") -> ImageContent:
    """The one image of a layout, read piece by piece; its reference is by digest."""
    manifest = content_of(_blob(layout, images.digest(layout)).read_bytes())
    parsed = parse_manifest(manifest.data)
    config = _blob(layout, parsed.config.digest).read_bytes()
    return ImageContent(
        repository,
        manifest,
        Content(parsed.config, config),
        parsed.layers,
        parse_config(config).rootfs.diff_ids,
        lambda layer: _pieces(layout, layer),
        UNSIGNED,
    )


def _pieces(layout: Path, layer: Descriptor) -> Iterator[bytes]:
    with _blob(layout, layer.digest).open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def with_config(image: ImageContent, config: bytes) -> ImageContent:
    """The same layers under another configuration."""
    described = content_of(config, image.config.descriptor.media_type)
    manifest = json.loads(image.manifest.data)
    manifest["config"] |= {"digest": described.descriptor.digest, "size": len(config)}
    read = parse_config(config)
    changed = replace(image, config=described, diff_ids=read.rootfs.diff_ids)
    return with_manifest(changed, json.dumps(manifest).encode())


def with_manifest(image: ImageContent, manifest: bytes) -> ImageContent:
    """Another manifest, and the reference by its digest."""
    parsed = parse_manifest(manifest)
    return replace(image, manifest=content_of(manifest), layers=parsed.layers)
