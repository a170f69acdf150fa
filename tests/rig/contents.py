"""Images of the rig as the content that a runtime of ours loads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rig import images
from rig.distribution import digest_of
from schedkit.runtimes.image_content import ImageContent

_PIECE_BYTES = 1 << 16


def content(layout: Path, repository: str = "registry.rig.test/rig/busybox") -> ImageContent:
    """The one image of a layout, read piece by piece; its reference is by digest."""
    digest = images.digest(layout)
    manifest = _blob(layout, digest).read_bytes()
    config = _blob(layout, json.loads(manifest)["config"]["digest"]).read_bytes()
    return ImageContent(f"{repository}@{digest}", manifest, config, lambda layer: _pieces(layout, layer))


def _pieces(layout: Path, digest: str) -> Iterator[bytes]:
    with _blob(layout, digest).open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def with_config(image: ImageContent, config: bytes) -> ImageContent:
    """The same layers under another configuration."""
    manifest = json.loads(image.manifest)
    manifest["config"] |= {"digest": digest_of(config), "size": len(config)}
    return replace(with_manifest(image, json.dumps(manifest).encode()), config=config)


def with_manifest(image: ImageContent, manifest: bytes) -> ImageContent:
    """Another manifest, under the reference by its digest."""
    repository = image.reference.partition("@")[0]
    return replace(image, reference=f"{repository}@{digest_of(manifest)}", manifest=manifest)
