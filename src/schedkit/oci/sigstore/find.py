"""Where signatures of an image are kept (step 3): in what refers to it, and under cosign 2's tag.

A list of referrers is a claim of the registry, and some tools write wrong types into it: each one is opened,
and its own manifest says what it refers to and what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

import msgspec

from schedkit.model.images.content import Content
from schedkit.model.images.references import Descriptor, Digest, Reference, Repository, Size
from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.errors import NotFound, Refused
from schedkit.oci.images.ports import Source
from schedkit.oci.sigstore import bundles, cosign2
from schedkit.oci.sigstore.statements import SignedStatement
from schedkit.oci.sigstore.strict import MAX_DOCUMENT, json_document

MAX_REFERRERS: Final = 64
MAX_SIGNATURES: Final = 64
_MAX_LAYERS: Final = 64


class _Layer(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str  # those of old bundles have parameters, which descriptors elsewhere may not have
    digest: str
    size: Size
    annotations: dict[str, str] | None = None


class _Subject(msgspec.Struct, frozen=True):
    digest: str


class _Manifest(msgspec.Struct, frozen=True):
    layers: list[_Layer] = []
    subject: _Subject | None = None

    def refers_to(self, digest: Digest) -> bool:
        return self.subject is not None and self.subject.digest == digest


class Piece(msgspec.Struct, frozen=True):
    """A signature that was found, and not yet fetched."""

    repository: Repository
    layer: _Layer
    found: str

    def fetch(self, source: Source) -> SignedStatement:
        """Steps 3 and 4: the signature with all that came with it, well-formed."""
        data = self._blob(source)
        if self.layer.media_type == cosign2.MEDIA_TYPE:
            return cosign2.parse_layer(data, self.layer.annotations or {}, self.found)
        return bundles.parse_bundle(data, self.found)

    def _blob(self, source: Source) -> bytes:
        try:
            descriptor = Descriptor(self.layer.media_type, Digest(self.layer.digest), self.layer.size)
            return source.blob(self.repository, descriptor, limit=MAX_DOCUMENT)
        except Refused as error:
            why = f"the registry's copy of the signature cannot be used: {error}"
            raise Refusal(Step.FORMAT, why) from error
        except (NotFound, ValueError) as error:
            raise Refusal(Step.EVIDENCE, f"the signature is listed, but missing: {error}") from error


def pieces(source: Source, repository: Repository, digest: Digest) -> Iterator[Piece | Refusal]:
    """Step 3: every signature that refers to the digest, and why others that claim to do not."""
    everything = chain(_referring(source, repository, digest), _tagged(source, repository, digest))
    yield from islice(everything, MAX_SIGNATURES)
    if next(everything, None) is not None:
        yield Refusal(
            Step.EVIDENCE, f"there are more than {MAX_SIGNATURES} signatures; the others were not read"
        )


def _referring(source: Source, repository: Repository, digest: Digest) -> Iterator[Piece | Refusal]:
    """The signatures in what refers to the digest."""
    try:
        referrers = source.referrers(repository, digest)
    except Refused as error:
        yield Refusal(Step.EVIDENCE, f"the registry's list of signatures cannot be used: {error}")
        referrers = ()
    for referrer in referrers[:MAX_REFERRERS]:
        content = _fetched(source, Reference(repository, digest=referrer.digest))
        yield from [content] if isinstance(content, Refusal) else _referrer(content, repository, digest)
    if len(referrers) > MAX_REFERRERS:
        yield Refusal(
            Step.EVIDENCE,
            f"more than {MAX_REFERRERS} documents refer to the image; the others were not read",
        )


def _tagged(source: Source, repository: Repository, digest: Digest) -> Iterator[Piece | Refusal]:
    """The signatures under cosign 2's tag, which refer to the digest by their name alone."""
    content = _fetched(source, Reference(repository, tag=f"{digest.fallback_tag}.sig"))
    if isinstance(content, Content):
        _, found = _read(content, repository)
        yield from found
    elif not isinstance(cause := content.__cause__, NotFound) or cause.is_hearsay:
        yield content


def _fetched(source: Source, reference: Reference) -> Content | Refusal:
    try:
        return source.resolve(reference)
    except (NotFound, Refused) as error:
        refusal = Refusal(Step.EVIDENCE, f"a document that should hold a signature cannot be used: {error}")
        refusal.__cause__ = error
        return refusal


def _referrer(content: Content, repository: Repository, digest: Digest) -> Sequence[Piece | Refusal]:
    manifest, found = _read(content, repository)
    if not found or manifest is None or manifest.refers_to(digest):
        return found
    about = manifest.subject.digest[:80] if manifest.subject else "nothing"
    return [
        Refusal(Step.EVIDENCE, f"{content.descriptor.digest} is listed as a signature, but refers to {about}")
    ]


def _read(content: Content, repository: Repository) -> tuple[_Manifest | None, Sequence[Piece | Refusal]]:
    """A manifest, and the signatures in it; None if it cannot be read."""
    name = content.descriptor.digest
    try:
        manifest = json_document(content.data, _Manifest, f"the manifest {name}", limit=4 * MAX_DOCUMENT)
    except Refusal as refusal:
        return None, [refusal]
    known = [layer for layer in manifest.layers[:_MAX_LAYERS] if layer.media_type in _MEDIA_TYPES]
    return manifest, [Piece(repository, layer, f"{layer.digest[:80]} in {name}") for layer in known]


_MEDIA_TYPES: Final = bundles.MEDIA_TYPES | {cosign2.MEDIA_TYPE}
