"""Artifacts: one file that a registry keeps, with a media type of its own."""

from __future__ import annotations

from schedkit.model.images import manifests
from schedkit.model.images.content import Content, content_of, digest_of
from schedkit.model.images.manifests import EMPTY_CONFIG, Manifest, render_manifest
from schedkit.model.images.references import Descriptor, Reference
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import Refused
from schedkit.oci.images.packing import Packed
from schedkit.oci.images.ports import Source

_EMPTY = b"{}"


def read_artifact(source: Source, reference: Reference, media_type: str, *, limit: int) -> bytes:
    """The one file of that media type; `Refused` if the reference names anything else."""
    top = source.resolve(reference)
    try:
        document = manifests.parse(top.data, top.descriptor.media_type)
    except InvalidDocument as error:
        raise Refused(f"{reference} cannot be used: {error}") from error
    layers = document.layers if isinstance(document, Manifest) else ()
    if len(layers) != 1 or layers[0].media_type != media_type:
        raise Refused(f"{reference} is not an artifact with one file of type {media_type}")
    return source.blob(reference.repository, layers[0], limit=limit)


def pack_artifact(data: bytes, media_type: str, *, title: str) -> Packed:
    """The artifact of one file; the same bytes each time."""
    file = Content(
        Descriptor(
            media_type, digest_of(data), len(data), annotations={"org.opencontainers.image.title": title}
        ),
        data,
    )
    config = content_of(_EMPTY, EMPTY_CONFIG)
    manifest = render_manifest(config=config.descriptor, layers=[file.descriptor], artifact_type=media_type)
    return Packed((config, file), (content_of(manifest),))
