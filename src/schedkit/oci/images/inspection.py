"""Looking at an image without pulling it: its digest, its platforms, and what it says about itself."""

from __future__ import annotations

from dataclasses import dataclass

from schedkit.model.images import manifests
from schedkit.model.images.configs import LARGEST, ImageConfig, parse_config
from schedkit.model.images.content import Content
from schedkit.model.images.manifests import Index, Manifest
from schedkit.model.images.references import Descriptor, Digest, Platform, Reference
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import Refused
from schedkit.oci.images.ports import Source


@dataclass(frozen=True, slots=True)
class Inspected:
    """An image as its registry has it now."""

    digest: Digest  # of the index where there is one: what signatures are about
    platforms: tuple[Platform, ...]
    config: ImageConfig  # of the platform that was wanted, else of the first
    layers: tuple[Descriptor, ...]  # of that platform

    @property
    def size(self) -> int:
        """Of its layers, as they are fetched."""
        return sum(layer.size for layer in self.layers)


def inspect(source: Source, reference: Reference, wanted: Platform) -> Inspected:
    """Look at the image; raises `RegistryError`."""
    top = source.resolve(reference)
    try:
        document = manifests.parse(top.data, top.descriptor.media_type)
        manifest, offered = _select(source, reference, document, wanted)
        config = parse_config(source.blob(reference.repository, manifest.config, limit=LARGEST))
    except InvalidDocument as error:
        raise Refused(f"{reference} cannot be used: {error}") from error
    return Inspected(top.descriptor.digest, offered or (config.platform,), config, manifest.layers)


def _select(
    source: Source, reference: Reference, document: Manifest | Index, wanted: Platform
) -> tuple[Manifest, tuple[Platform, ...]]:
    """The manifest to look at, and the platforms of the index around it; none where there is no index."""
    if isinstance(document, Manifest):
        return document, ()
    runnable = [entry for entry in document.manifests if _is_runnable(entry)]
    if not runnable:
        raise Refused(f"{reference} lists no image for any platform")
    chosen = next((entry for entry in runnable if _fits(entry, wanted)), runnable[0])
    inner: Content = source.manifest(reference.repository, chosen.digest)
    manifest = manifests.parse_manifest(inner.data, inner.descriptor.media_type)
    return manifest, tuple(entry.platform for entry in runnable if entry.platform)


def _is_runnable(entry: Descriptor) -> bool:
    """Whether it is an image: builders list their attestations as well, for an unknown platform."""
    return entry.platform is not None and entry.platform.os != "unknown"


def _fits(entry: Descriptor, wanted: Platform) -> bool:
    offered = entry.platform
    return offered is not None and (offered.os, offered.architecture) == (wanted.os, wanted.architecture)
