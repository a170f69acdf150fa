"""An image on its way from where it is published into a runtime: for this machine, and verified."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from schedkit.model.images import manifests
from schedkit.model.images.configs import LARGEST, MIN_KERNEL, ImageConfig, parse_config, platform_of
from schedkit.model.images.content import Content
from schedkit.model.images.manifests import Index, Manifest, NoSuchPlatform
from schedkit.model.images.references import Platform, Reference
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.model.trust.verified import Admission
from schedkit.oci.errors import Refused
from schedkit.oci.images.ports import Source
from schedkit.runtimes.image_content import ImageContent
from schedkit.schedctl.problems.problem import Problem

_OTHER_IMAGE = "choose an image that is published for this platform"


@dataclass(frozen=True, slots=True)
class Fetchable:
    """An image for this machine of which nothing but its manifest and configuration was read."""

    reference: Reference  # with the digest that the name means now
    named: Content  # what the name means: the manifest, or an index that lists it
    manifest: Content
    parsed: Manifest
    config_document: Content
    config: ImageConfig

    @property
    def min_kernel(self) -> str:
        """By the image's own label; empty: it does not say."""
        return self.config.labels.get(MIN_KERNEL, "")


def find(source: Source, reference: Reference) -> Fetchable:
    """Look at the image, and refuse it if it is for other machines; no layer is fetched."""
    wanted = platform_of(os.uname().machine)
    top = source.resolve(reference)
    try:
        manifest, parsed = _for_platform(source, reference, top, wanted)
        data = source.blob(reference.repository, parsed.config, limit=LARGEST)
        config = parse_config(data)
    except InvalidDocument as error:
        raise Refused(f"{reference} cannot be used: {error}") from error
    except NoSuchPlatform as error:
        raise Problem(f"{reference} is not for this machine", why=str(error), remedy=_OTHER_IMAGE) from error
    _require_platform(reference, config.platform, wanted)
    if not 0 < len(parsed.layers) == len(config.rootfs.diff_ids):
        raise Refused(f"{reference} cannot be used: its configuration lists other layers than its manifest")
    pinned = reference.pinned(top.descriptor.digest)
    return Fetchable(pinned, top, manifest, parsed, Content(parsed.config, data), config)


def _for_platform(
    source: Source, reference: Reference, top: Content, wanted: Platform
) -> tuple[Content, Manifest]:
    document = manifests.parse(top.data, top.descriptor.media_type)
    if not isinstance(document, Index):
        return top, document
    chosen = manifests.select_platform(document, wanted)
    inner = source.manifest(reference.repository, chosen.digest)
    return inner, manifests.parse_manifest(inner.data, inner.descriptor.media_type)


def _require_platform(reference: Reference, offered: Platform, wanted: Platform) -> None:
    if (offered.os, offered.architecture) != (wanted.os, wanted.architecture):
        why = f"it is for {offered}, this machine is {wanted}"
        raise Problem(f"{reference} is not for this machine", why=why, remedy=_OTHER_IMAGE)


def content(source: Source, found: Fetchable, admission: Admission) -> ImageContent:
    """The image as runtimes take it; layers are read from the source while they do."""
    repository = found.reference.repository
    return ImageContent(
        str(repository),
        found.manifest,
        found.config_document,
        found.parsed.layers,
        found.config.rootfs.diff_ids,
        partial(source.stream, repository),
        admission,
    )
