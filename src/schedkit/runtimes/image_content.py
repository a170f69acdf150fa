"""An image as verified bytes, on its way into a runtime: checked before anything is handed over."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schedkit.runtimes.errors import BrokenImageError, WrongPlatformError

_MANIFEST_TYPES = {
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_AGAIN = "fetch it again; if that does not help, the image was published broken"


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image for one platform. `reference` ends in the digest of `manifest`, `host/repository@sha256:…`.

    `read` gives the bytes of a layer by its digest, in pieces; it may raise whatever its source raises.
    """

    reference: str
    manifest: bytes
    config: bytes
    read: Callable[[str], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of an image's layers was handed over; each one of a load says more than the last."""

    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Blob:
    """A part of an image: what its manifest says about it."""

    media_type: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Parts:
    """A checked image: manifest and configuration agree with their digests and with each other."""

    manifest: Blob
    config: Blob
    layers: tuple[Blob, ...]
    diff_ids: tuple[str, ...]  # the digests of the layers when they are not compressed

    @property
    def layer_bytes(self) -> int:
        """What is to be transferred."""
        return sum(layer.size for layer in self.layers)


def parts_of(image: ImageContent, *, architecture: str | None = None) -> Parts:
    """Check an image for a machine of that architecture, by default this one."""
    try:
        parts = _read_parts(image)
        config = json.loads(image.config)
        platform = (config["os"], config["architecture"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenImageError(f"{image.reference} is no image that can be run: {error!r}", _AGAIN) from error
    wanted = ("linux", architecture or this_architecture())
    if platform != wanted:
        made_for, here = "/".join(map(str, platform)), "/".join(wanted)
        hint = "choose an image that is published for this platform"
        raise WrongPlatformError(f"{image.reference} is for {made_for}, this machine is {here}", hint)
    return parts


def this_architecture() -> str:
    """What images call this machine's architecture."""
    machine = os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


def digest_of(data: bytes) -> str:
    """The name of these bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def whole_layer(image: ImageContent, layer: Blob) -> Iterator[bytes]:
    """The layer's bytes; raise instead of ending if they are too few, too many or others."""
    left, digest = layer.size, hashlib.sha256()
    for piece in image.read(layer.digest):
        left -= len(piece)
        if left < 0:
            break
        digest.update(piece)
        yield piece
    if left != 0:
        what = "longer" if left < 0 else f"{left} bytes shorter"
        raise BrokenImageError(f"layer {layer.digest} of {image.reference} is {what} than announced", _AGAIN)
    if f"sha256:{digest.hexdigest()}" != layer.digest:
        problem = f"the bytes of layer {layer.digest} of {image.reference} are not those of its digest"
        raise BrokenImageError(problem, _AGAIN)


class Meter:
    """Tells how far a load is: never the same twice, and at its end the whole."""

    def __init__(self, parts: Parts, tell: Callable[[Progress], None] | None) -> None:
        self._total = parts.layer_bytes
        self._tell = tell
        self._done = self._told = 0

    def restart(self) -> None:
        """The load begins anew; what was told stays told."""
        self._done = 0

    def count(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same pieces, each told once it was taken."""
        for piece in pieces:
            yield piece
            self.reach(self._done + len(piece))

    def reach(self, done: int) -> None:
        """So much is done, however it was."""
        self._done = max(done, self._done)
        if self._done > self._told:
            self._told = self._done
            if self._tell is not None:
                self._tell(Progress(self._told, self._total))


def _read_parts(image: ImageContent) -> Parts:
    manifest, config = json.loads(image.manifest), json.loads(image.config)
    named = image.reference.rpartition("@")[2]
    media_type = manifest.get("mediaType", "application/vnd.oci.image.manifest.v1+json")
    parts = Parts(
        Blob(media_type, digest_of(image.manifest), len(image.manifest)),
        _blob(manifest["config"]),
        tuple(_blob(layer) for layer in manifest["layers"]),
        tuple(config["rootfs"]["diff_ids"]),
    )
    _require(media_type in _MANIFEST_TYPES, f"{media_type} is no image of one platform")
    _require(parts.manifest.digest == named, f"its manifest has the digest {parts.manifest.digest}")
    _require(parts.config.digest == digest_of(image.config), "its configuration has another digest")
    _require(0 < len(parts.layers) == len(parts.diff_ids), "its configuration lists other layers")
    return parts


def _blob(descriptor: Mapping[str, Any]) -> Blob:
    return Blob(str(descriptor["mediaType"]), str(descriptor["digest"]), int(descriptor["size"]))


def _require(agreed: bool, otherwise: str) -> None:  # noqa: FBT001 - a condition, not a switch
    if not agreed:
        raise ValueError(otherwise)
