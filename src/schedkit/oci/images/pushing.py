"""Storing images that were made here."""

from __future__ import annotations

from schedkit.model.images.references import Reference
from schedkit.oci.images.packing import Packed
from schedkit.oci.images.sources import Content
from schedkit.oci.images.targets import Target


def push(target: Target, packed: Packed, reference: Reference) -> None:
    """Store all parts, and last what is pulled, under the reference's tag."""
    for blob in packed.blobs:
        _push_blob(target, reference, blob)
    for manifest in packed.manifests[:-1]:
        target.push_manifest(reference.repository, manifest)
    target.push_manifest(reference.repository, packed.top, tag=reference.tag)


def _push_blob(target: Target, reference: Reference, blob: Content) -> None:
    target.push_blob(reference.repository, blob.descriptor, lambda: (blob.data,))
