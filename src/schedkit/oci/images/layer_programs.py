"""The programs in an image, read layer by layer, without keeping the image anywhere."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from schedkit.model.images.references import Descriptor, Repository
from schedkit.oci.errors import Refused
from schedkit.oci.images.ports import Source

_LARGEST_PROGRAM: Final = 256 << 20
_LARGEST_LAYER: Final = 2 << 30  # unpacked
_MOST_FILES: Final = 100_000
_EXECUTABLE: Final = 0o111


def programs(source: Source, repository: Repository, layers: Iterable[Descriptor]) -> Iterator[bytes]:
    """Every executable file's content; raises `RegistryError`, also for layers that cannot be unpacked."""
    for layer in layers:
        try:
            yield from _programs(_Stream(source.stream(repository, layer)))
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise Refused(f"the layer {layer.digest} cannot be unpacked: {error}") from error


def _programs(stream: _Stream) -> Iterator[bytes]:
    unpacked = 0
    with tarfile.open(fileobj=stream, mode="r|*") as archive:  # type: ignore[call-overload]  # `read` is enough
        for number, entry in enumerate(archive):
            unpacked += entry.size
            if unpacked > _LARGEST_LAYER or number > _MOST_FILES:
                raise tarfile.TarError("it is larger than any scheduler's image")
            if entry.isfile() and entry.mode & _EXECUTABLE and entry.size <= _LARGEST_PROGRAM:
                content = archive.extractfile(entry)
                yield content.read() if content else b""


class _Stream:
    """Pieces, read as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        self._left = self._left or next(self._pieces, b"")
        taken, self._left = self._left[:size], self._left[size:]
        return taken
