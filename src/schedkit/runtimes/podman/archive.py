"""An image as one OCI archive, streamed: what `podman load` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from schedkit.model.images.references import Descriptor
from schedkit.runtimes.image_content import ImageContent, Meter, whole_layer

_BLOCK_BYTES = 512
_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_NAME = "org.opencontainers.image.ref.name"


def archive(image: ImageContent, meter: Meter) -> Iterator[bytes]:
    """The archive's bytes; no more than a piece of a layer is in memory at a time."""
    yield from _file("oci-layout", _LAYOUT)
    yield from _file("index.json", _index(image))
    for document in (image.manifest, image.config):
        yield from _file(_path(document.descriptor), document.data)
    for layer in {layer.digest: layer for layer in image.layers}.values():
        yield _header(_path(layer), layer.size)
        yield from meter.count(whole_layer(image, layer))
        yield _padding(layer.size)
    meter.reach(image.layer_bytes)  # also when a layer is there twice
    yield bytes(2 * _BLOCK_BYTES)


def _index(image: ImageContent) -> bytes:
    described = image.manifest.descriptor
    manifest: dict[str, Any] = {
        "mediaType": described.media_type,
        "digest": described.digest,
        "size": described.size,
        "annotations": {_NAME: image.reference},
    }
    return json.dumps({"schemaVersion": 2, "mediaType": _INDEX_TYPE, "manifests": [manifest]}).encode()


def _path(blob: Descriptor) -> str:
    return f"blobs/{blob.digest.replace(':', '/')}"


def _file(path: str, content: bytes) -> Iterator[bytes]:
    yield _header(path, len(content))
    yield content
    yield _padding(len(content))


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK_BYTES)


def _header(path: str, size: int) -> bytes:
    """A ustar header by hand: the tarfile module costs as much start-up as all the rest of this package."""
    fields = [
        path.encode().ljust(100, b"\0"),
        b"0000644\0" + b"0000000\0" * 2,  # mode, user, group
        b"%011o\0" % size,
        b"00000000000\0",  # the beginning of time
        b" " * 8,  # the checksum counts as blanks
        b"0".ljust(101, b"\0"),  # a file, no link
        b"ustar\x0000",
    ]
    header = b"".join(fields).ljust(_BLOCK_BYTES, b"\0")
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]
