"""The registry client against real registries: what they hold comes back verified, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from rig.distribution import IMAGE_INDEX, IMAGE_MANIFEST, digest_of
from rig.registry import Pushed
from rig.registry import Registry as RunningRegistry
from schedkit.model import manifests
from schedkit.model.images import Descriptor, Digest, Reference, Repository, parse_reference
from schedkit.oci.errors import NotFound, Refused, TooLarge
from schedkit.oci.registry import Registry, Settings

Push = Callable[[RunningRegistry], Pushed]


@pytest.fixture
def client(registry: RunningRegistry) -> Iterator[Registry]:
    with Registry(Settings(ca_file=registry.ca_file)) as client:
        yield client


def _repository(image: Pushed) -> Repository:
    return parse_reference(image.reference).repository


def _tagged(image: Pushed, tag: str = "v1") -> Reference:
    return Reference(_repository(image), tag=tag)


def test_a_tag_resolves_to_the_pushed_image(registry: RunningRegistry, client: Registry, push: Push) -> None:
    image = push(registry)

    content = client.resolve(_tagged(image))

    assert content.descriptor.digest == image.digest == digest_of(content.data)
    assert content.descriptor.media_type == IMAGE_MANIFEST
    assert content == client.manifest(_repository(image), Digest(image.digest))


def test_blobs_come_whole_and_in_pieces(registry: RunningRegistry, client: Registry, push: Push) -> None:
    image = push(registry)
    manifest = manifests.parse_manifest(client.resolve(_tagged(image)).data)

    layer = manifest.layers[0]
    whole = client.blob(_repository(image), layer, limit=layer.size)

    assert digest_of(whole) == layer.digest
    assert b"".join(client.stream(_repository(image), layer)) == whole


def test_a_blob_over_the_limit_is_not_fetched(
    registry: RunningRegistry, client: Registry, push: Push
) -> None:
    image = push(registry)
    layer = manifests.parse_manifest(client.resolve(_tagged(image)).data).layers[0]

    with pytest.raises(TooLarge, match=rf"has {layer.size} bytes; {layer.size - 1} is the most"):
        client.blob(_repository(image), layer, limit=layer.size - 1)


def test_a_blob_of_another_size_than_announced_is_refused(
    registry: RunningRegistry, client: Registry, push: Push
) -> None:
    image = push(registry)
    layer = manifests.parse_manifest(client.resolve(_tagged(image)).data).layers[0]
    lie = Descriptor(layer.media_type, layer.digest, layer.size - 1)

    with pytest.raises(Refused):
        client.blob(_repository(image), lie, limit=layer.size)


def test_what_is_not_there_is_not_found(registry: RunningRegistry, client: Registry, push: Push) -> None:
    image = push(registry)

    with pytest.raises(NotFound):
        client.resolve(_tagged(image, "v2"))
    with pytest.raises(NotFound):
        client.manifest(_repository(image), Digest(digest_of(b"nothing")))


def test_tags_are_listed_in_order(registry: RunningRegistry, client: Registry, push: Push) -> None:
    image = push(registry)
    manifest = registry.client.manifest(image.repository, "v1").body
    for tag in ("v3", "v2"):
        _put_manifest(registry, image.repository, tag, manifest)

    assert client.tags(_repository(image)) == ("v1", "v2", "v3")


def test_an_image_without_referrers_has_none(registry: RunningRegistry, client: Registry, push: Push) -> None:
    image = push(registry)

    assert client.referrers(_repository(image), Digest(image.digest)) == ()


def _put_manifest(
    registry: RunningRegistry, repository: str, name: str, body: bytes, media_type: str = IMAGE_MANIFEST
) -> None:
    headers = {"Content-Type": media_type}
    path = f"/v2/{repository}/manifests/{name}"
    assert registry.client.request("PUT", path, body=body, headers=headers).status == 201


def _referring(image: Pushed) -> bytes:
    """A manifest that says it belongs to the image, and borrows the image's own blobs."""
    manifest = image.registry.client.manifest(image.repository, image.digest)
    subject = {"mediaType": IMAGE_MANIFEST, "digest": image.digest, "size": len(manifest.body)}
    return json.dumps({**manifest.json(), "subject": subject, "artifactType": "example/thing"}).encode()


def test_what_refers_to_an_image_is_found(registry: RunningRegistry, client: Registry, push: Push) -> None:
    """Through the API where there is one, else through the fallback tag, as oras and cosign write it."""
    image = push(registry)
    referrer = _referring(image)
    _put_manifest(registry, image.repository, digest_of(referrer), referrer)
    if client.referrers(_repository(image), Digest(image.digest)) == ():
        entry = {"mediaType": IMAGE_MANIFEST, "digest": digest_of(referrer), "size": len(referrer)}
        index = {"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": [entry]}
        tag = image.digest.replace(":", "-")
        _put_manifest(registry, image.repository, tag, json.dumps(index).encode(), IMAGE_INDEX)

    found = client.referrers(_repository(image), Digest(image.digest))

    assert [entry.digest for entry in found] == [digest_of(referrer)]
    assert client.manifest(_repository(image), found[0].digest).data == referrer
