"""Where images go: a registry or a layout on disk, through one port."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from schedkit.model.images.references import Descriptor, Repository
from schedkit.oci.images.sources import Content

# Begins to read a blob; called only if its content is needed.
Reader: TypeAlias = Callable[[], Iterable[bytes]]


class Target(Protocol):
    """Stores images. What it accepted it keeps, under its digest; every failure is a `RegistryError`."""

    def push_blob(
        self,
        repository: Repository,
        descriptor: Descriptor,
        read: Reader,
        *,
        mount_from: Repository | None = None,
    ) -> bool:
        """Store a blob unless it is there; whether it was read. `mount_from` names where else it may be."""
        ...

    def push_manifest(self, repository: Repository, content: Content, *, tag: str | None = None) -> None:
        """Store a manifest, whose parts are there, under its digest and the tag.

        One with a subject is listed among the subject's referrers from then on.
        """
        ...
