"""An admitted image on its way into a runtime, read piece by piece."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from schedkit.model.images.content import Content
from schedkit.model.images.references import Descriptor
from schedkit.model.trust.verified import Admission
from schedkit.runtimes.errors import BrokenImageError

_AGAIN = "fetch it again; if that does not help, the image was published broken"


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image for this machine's platform, parsed by whoever found it, and admitted.

    `read` gives the bytes of a layer, in pieces; it may raise whatever its source raises.
    """

    repository: str
    manifest: Content
    config: Content
    layers: tuple[Descriptor, ...]
    diff_ids: tuple[str, ...]  # the digests of the layers when they are not compressed
    read: Callable[[Descriptor], Iterable[bytes]]
    admission: Admission

    @property
    def reference(self) -> str:
        """What the runtime calls it: `host/repository@sha256:…`, by the digest of its manifest."""
        return f"{self.repository}@{self.manifest.descriptor.digest}"

    @property
    def layer_bytes(self) -> int:
        """What is to be transferred."""
        return sum(layer.size for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of an image's layers was handed over; each one of a load says more than the last."""

    done_bytes: int
    total_bytes: int


def whole_layer(image: ImageContent, layer: Descriptor) -> Iterator[bytes]:
    """The layer's bytes; raise instead of ending if they are too few, too many or others."""
    left, digest = layer.size, hashlib.sha256()
    for piece in image.read(layer):
        left -= len(piece)
        if left < 0:
            break
        digest.update(piece)
        yield piece
    if left != 0:
        what = "longer" if left < 0 else f"{left} bytes shorter"
        raise BrokenImageError(f"layer {layer.digest} of {image.reference} is {what} than announced", _AGAIN)
    if f"sha256:{digest.hexdigest()}" != layer.digest:
        problem = f"the bytes of layer {layer.digest} of {image.reference} do not match its digest"
        raise BrokenImageError(problem, _AGAIN)


class Meter:
    """Tells how far a load is: never the same twice, and at its end the whole."""

    def __init__(self, image: ImageContent, tell: Callable[[Progress], None] | None) -> None:
        self._total = image.layer_bytes
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
