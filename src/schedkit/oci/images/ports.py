"""Where images come from and go to: two protocols, for registries and layouts alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias

from schedkit.model.images.content import Content
from schedkit.model.images.references import Descriptor, Digest, Reference, Repository


class Source(Protocol):
    """Reads images. What comes with a digest was verified; every failure is a `RegistryError`."""

    def resolve(self, reference: Reference) -> Content:
        """The manifest or index of that name; a digest in the name is binding, a tag beside it is ignored."""
        ...

    def manifest(self, repository: Repository, digest: Digest) -> Content:
        """The manifest or index of that digest."""
        ...

    def blob(self, repository: Repository, descriptor: Descriptor, *, limit: int) -> bytes:
        """The whole blob; `TooLarge`, and nothing fetched, if it has more bytes than the limit."""
        ...

    def stream(self, repository: Repository, descriptor: Descriptor) -> Iterator[bytes]:
        """The blob in pieces, never more than its size; raises after the last if the digest is another."""
        ...

    def referrers(self, repository: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        """What claims to refer to that digest; only each one's own manifest says whether it does."""
        ...

    def tags(self, repository: Repository) -> tuple[str, ...]:
        """All tags, sorted."""
        ...


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
