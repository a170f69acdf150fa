"""Copying an image with everything that speaks for it: platforms, signatures, whatever refers to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from schedkit.model.images import manifests
from schedkit.model.images.content import Content
from schedkit.model.images.manifests import Index, Manifest
from schedkit.model.images.references import Descriptor, Digest, Reference, Repository
from schedkit.oci.errors import NotFound, Refused, TooLarge
from schedkit.oci.images.ports import Source, Target

# the tags under which cosign keeps what it could not yet attach as a referrer
_COMPANION_TAGS = (".sig", ".att", ".sbom")
_DEEPEST = 8
_MOST_REFERRERS = 64  # of one document; verification reads no more either


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one copy may become, whatever a registry says."""

    total_bytes: int = 16 * 1024**3
    documents: int = 2000


@dataclass(slots=True)
class Copied:
    """What a copy consists of."""

    digest: Digest
    referrers: list[Digest] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    total_bytes: int = 0  # of everything the image consists of
    moved_bytes: int = 0  # of the blobs that were not there before
    warnings: list[str] = field(default_factory=list)  # what was listed, and is not in the copy


def copy(
    source: Source, target: Target, reference: Reference, to: Reference, *, limits: Limits | None = None
) -> Copied:
    """Copy an image and what speaks for it; `to` names the repository and, if it is to have one, the tag.

    The tag comes last: whoever sees it, sees a whole image. After a failure, the next try goes on where this
    one ended.
    """
    content = source.resolve(reference)
    copier = _Copier(source, target, reference.repository, to.repository, limits or Limits(), content)
    copier.copy_image(content, depth=0)
    if to.tag is not None:
        target.push_manifest(to.repository, content, tag=to.tag)
    return copier.copied


class _Copier:
    def __init__(
        self,
        source: Source,
        target: Target,
        origin: Repository,
        to: Repository,
        limits: Limits,
        content: Content,
    ) -> None:
        self._source = source
        self._target = target
        self._origin = origin
        self._to = to
        self._limits = limits
        self._seen: set[Digest] = set()
        self._rejected: set[Digest] = set()  # what was fetched, and does not belong to the image
        self._fetched = 0
        self.copied = Copied(content.descriptor.digest)

    def copy_image(self, content: Content, *, depth: int) -> None:
        """The image's parts, itself, and what speaks for it; once, however often it is named."""
        if content.descriptor.digest in self._seen:
            return
        if depth > _DEEPEST:
            raise Refused(f"{self._origin} has documents nested more than {_DEEPEST} levels deep")
        self._count(content.descriptor)
        manifest = manifests.parse(content.data, content.descriptor.media_type)
        self._copy_parts(manifest, depth)
        self._target.push_manifest(self._to, content)
        self._copy_referrers(content.descriptor.digest, depth)
        self._copy_companions(content.descriptor.digest, depth)

    def _copy_parts(self, manifest: Manifest | Index, depth: int) -> None:
        if isinstance(manifest, Manifest):
            for blob in (manifest.config, *manifest.layers):
                self._copy_blob(blob)
            return
        for entry in manifest.manifests:
            if entry.digest not in self._seen:
                self.copy_image(self._child(entry), depth=depth + 1)

    def _child(self, entry: Descriptor) -> Content:
        content = self._fetch(entry.digest)
        found = content.descriptor
        if (found.size, found.media_type) != (entry.size, entry.media_type):
            raise Refused(f"{self._origin}@{entry.digest} is not what the index says it is")
        return content

    def _copy_blob(self, blob: Descriptor) -> None:
        if blob.digest in self._seen:
            return
        self._count(blob)
        read = self._target.push_blob(
            self._to, blob, lambda: self._source.stream(self._origin, blob), mount_from=self._origin
        )
        self.copied.moved_bytes += blob.size if read else 0

    def _copy_referrers(self, digest: Digest, depth: int) -> None:
        listed = self._source.referrers(self._origin, digest)
        if len(listed) > _MOST_REFERRERS:
            rest = f"{len(listed) - _MOST_REFERRERS} of {len(listed)} documents that refer to {digest}"
            self.copied.warnings.append(f"{rest} are not copied: the limit is {_MOST_REFERRERS}")
        for entry in listed[:_MOST_REFERRERS]:
            if entry.digest not in self._seen | self._rejected:
                self._copy_referrer(entry.digest, digest, depth)

    def _copy_referrer(self, referrer: Digest, digest: Digest, depth: int) -> None:
        """Copy it if it refers to the digest by its own word; what is listed and not there harms nobody."""
        try:
            content = self._fetch(referrer)
        except NotFound as error:
            self._rejected.add(referrer)
            why = f"it is missing: {error}"
            self.copied.warnings.append(f"{referrer}, which refers to {digest}, is not copied, because {why}")
            return
        manifest = manifests.parse(content.data, content.descriptor.media_type)
        if manifest.subject is None or manifest.subject.digest != digest:
            self._rejected.add(referrer)
            return
        self.copied.referrers.append(referrer)
        self.copy_image(content, depth=depth + 1)

    def _fetch(self, digest: Digest) -> Content:
        """Every fetch counts, also of what is then left out: strangers decide how many there are."""
        self._fetched += 1
        if self._fetched > self._limits.documents:
            raise TooLarge(f"{self._origin} has more than {self._limits.documents} documents to fetch")
        return self._source.manifest(self._origin, digest)

    def _copy_companions(self, digest: Digest, depth: int) -> None:
        for tag in (f"{digest.fallback_tag}{suffix}" for suffix in _COMPANION_TAGS):
            try:
                content = self._source.resolve(Reference(self._origin, tag=tag))
            except NotFound:
                continue
            self.copy_image(content, depth=depth + 1)
            self._target.push_manifest(self._to, content, tag=tag)
            self.copied.tags.append(tag)

    def _count(self, descriptor: Descriptor) -> None:
        self._seen.add(descriptor.digest)
        self.copied.total_bytes += descriptor.size
        if len(self._seen) > self._limits.documents:
            raise TooLarge(f"{self._origin} has more than {self._limits.documents} parts to copy")
        if self.copied.total_bytes > self._limits.total_bytes:
            raise TooLarge(f"{self._origin} has more than {self._limits.total_bytes} bytes to copy")
