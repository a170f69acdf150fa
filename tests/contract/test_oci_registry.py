"""The registry client against real registries: what they hold comes back verified, and nothing else does."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.base.certificates import Authority
from rig.registries import tokens
from rig.registries.distribution import IMAGE_INDEX, IMAGE_MANIFEST, digest_of
from rig.registries.hostile import Server
from rig.registries.registry import Kind, Pushed
from rig.registries.registry import Registry as RunningRegistry
from rig.registries.tokens import TokenServer
from rig.runtimes import images
from schedkit.model.images import manifests
from schedkit.model.images.content import Content
from schedkit.model.images.references import (
    Descriptor,
    Digest,
    Platform,
    Reference,
    Repository,
    parse_reference,
)
from schedkit.oci.errors import NotFound, Refused, TooLarge, Unauthorized, Uncertified, Unreachable
from schedkit.oci.registry.client import Registry, Settings
from schedkit.oci.registry.host import Patience
from schedkit.oci.registry.logins import CredentialFiles

Push = Callable[[RunningRegistry], Pushed]
BRIEF = Patience(attempts=2, first_delay_s=0.02)


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

    with pytest.raises(TooLarge, match=rf"has {layer.size} bytes; the limit is {layer.size - 1}"):
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

    with pytest.raises(NotFound) as by_tag:
        client.resolve(_tagged(image, "v2"))
    with pytest.raises(NotFound) as by_digest:
        client.manifest(_repository(image), Digest(digest_of(b"nothing")))

    assert not by_tag.value.is_hearsay, "it is known for a registry's own word"
    assert not by_digest.value.is_hearsay


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


def test_an_index_gives_the_image_of_a_platform(
    registry: RunningRegistry, client: Registry, tmp_path: Path
) -> None:
    both = [images.Image("tool", b"#!/bin/false\n", architecture=each) for each in ("amd64", "arm64")]
    images.write_layout(both, tmp_path)
    registry.client.push(tmp_path, "rig/both", "v1")
    repository = Repository(registry.host, "rig/both")

    content = client.resolve(Reference(repository, tag="v1"))
    index = manifests.parse_index(content.data, content.descriptor.media_type)
    chosen = manifests.select_platform(index, Platform("linux", "arm64"))

    config = manifests.parse_manifest(client.manifest(repository, chosen.digest).data).config
    assert json.loads(client.blob(repository, config, limit=config.size))["architecture"] == "arm64"


def test_plain_http_is_found_on_loopback(plain_registry: RunningRegistry, push: Push) -> None:
    image = push(plain_registry)

    with Registry() as client:
        assert client.resolve(_tagged(image)).descriptor.digest == image.digest


def test_plain_http_elsewhere_needs_to_be_asked_for(plain_registry: RunningRegistry, push: Push) -> None:
    """This address leads to loopback, but is not in its range."""
    image = push(plain_registry)
    host = f"0.0.0.0:{plain_registry.port}"
    named = Reference(Repository(host, image.repository), tag="v1")

    with Registry(Settings(patience=BRIEF)) as strict, pytest.raises(Unreachable, match="does not speak TLS"):
        strict.resolve(named)
    with Registry(Settings(insecure=frozenset({host}))) as lenient:
        assert lenient.resolve(named).descriptor.digest == image.digest


def test_an_unknown_authority_is_not_trusted(registry: RunningRegistry, push: Push) -> None:
    image = push(registry)

    with Registry() as client, pytest.raises(Uncertified, match="certificate that cannot be trusted"):
        client.resolve(_tagged(image))


def test_a_registry_that_is_off_is_unreachable(registry: RunningRegistry, tmp_path: Path, push: Push) -> None:
    with RunningRegistry(registry.kind, tmp_path) as own:
        image = push(own)

    with (
        Registry(Settings(patience=BRIEF)) as client,
        pytest.raises(Unreachable, match="could not be reached"),
    ):
        client.resolve(_tagged(image))


@pytest.fixture(scope="module", params=["password", "token"])
def guarded(
    request: pytest.FixtureRequest, folder: Path, authority: Authority
) -> Iterator[tuple[RunningRegistry, Server | None]]:
    """A registry that demands a login, and the server where its tokens come from."""
    place = folder / request.module.__name__ / request.param
    place.mkdir(parents=True)
    if request.param == "password":
        demand = tokens.htpasswd_demand(place)
        with RunningRegistry(Kind.FALLBACK_TAGS, place, authority, demand) as registry:
            yield registry, None
        return
    with (
        TokenServer(authority) as token_server,
        RunningRegistry(Kind.FALLBACK_TAGS, place, authority, token_server.demand) as registry,
    ):
        yield registry, token_server.server


def _login_file(folder: Path, registry: str, password: str = tokens.PASSWORD) -> CredentialFiles:
    auth = base64.b64encode(f"{tokens.USER}:{password}".encode()).decode()
    file = folder / "auth.json"
    file.write_text(json.dumps({"auths": {registry: {"auth": auth}}}))
    return CredentialFiles((file,))


def _small_image() -> tuple[Content, bytes]:
    config = b"{}"
    entry = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest_of(config), "size": 2}
    body = json.dumps(
        {"schemaVersion": 2, "mediaType": IMAGE_MANIFEST, "config": entry, "layers": []}
    ).encode()
    return Content(Descriptor(IMAGE_MANIFEST, Digest(digest_of(body)), len(body)), body), config


def test_with_a_login_one_pushes_and_reads(
    guarded: tuple[RunningRegistry, Server | None], authority: Authority, tmp_path: Path
) -> None:
    registry, _ = guarded
    repository = Repository(registry.host, "guarded/image")
    content, config = _small_image()
    entry = manifests.parse_manifest(content.data).config

    settings = Settings(ca_file=authority.ca_file)
    with Registry(settings, _login_file(tmp_path, registry.host)) as client:
        assert client.push_blob(repository, entry, lambda: [config])
        assert not client.push_blob(repository, entry, lambda: [config])
        client.push_manifest(repository, content, tag="v1")

        assert client.resolve(Reference(repository, tag="v1")) == content
        assert client.blob(repository, entry, limit=2) == config
        assert client.tags(repository) == ("v1",)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_without_the_right_login_one_gets_nothing(
    guarded: tuple[RunningRegistry, Server | None], authority: Authority, tmp_path: Path, password: str | None
) -> None:
    registry, _ = guarded
    login = _login_file(tmp_path, registry.host, password) if password else None

    with Registry(Settings(ca_file=authority.ca_file), login) as client, pytest.raises(Unauthorized):
        client.tags(Repository(registry.host, "guarded/image"))
