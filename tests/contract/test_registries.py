"""The registries are real: what goes in comes out, and what is off or removed does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.base.certificates import Authority
from rig.registries.distribution import IMAGE_INDEX, Client, digest_of
from rig.registries.registry import Kind, Pushed, Registry

Push = Callable[[Registry], Pushed]


@pytest.fixture
def own_registry(registry: Registry, tmp_path: Path, authority: Authority) -> Iterator[Registry]:
    """One of the same kind that a test may stop."""
    with Registry(registry.kind, tmp_path, authority) as own:
        yield own


def test_a_pushed_image_comes_back_with_the_digest_it_was_pushed_under(
    registry: Registry, push: Push
) -> None:
    image = push(registry)

    manifest = registry.client.manifest(image.repository, "v1")
    parts = [manifest.json()["config"], *manifest.json()["layers"]]
    blobs = [registry.client.blob(image.repository, part["digest"]).body for part in parts]

    assert digest_of(manifest.body) == image.digest
    assert [digest_of(blob) for blob in blobs] == [part["digest"] for part in parts]


def test_a_registry_without_tls_serves_the_same(plain_registry: Registry, push: Push) -> None:
    image = push(plain_registry)

    assert plain_registry.url.startswith("http://")
    assert digest_of(plain_registry.client.manifest(image.repository, "v1").body) == image.digest


def test_an_image_survives_a_restart_of_its_registry(own_registry: Registry, push: Push) -> None:
    image = push(own_registry)

    own_registry.stop()
    own_registry.start()

    assert own_registry.client.manifest(image.repository, image.digest).status == 200


def test_a_registry_that_is_off_gives_nothing(own_registry: Registry, push: Push) -> None:
    image = push(own_registry)

    own_registry.stop()

    with pytest.raises(ConnectionRefusedError):
        _raise_reason(lambda: own_registry.client.manifest(image.repository, image.digest))


def test_a_removed_image_is_gone(registry: Registry, push: Push) -> None:
    image = push(registry)

    registry.client.delete_manifest(image.repository, image.digest)

    assert registry.client.manifest(image.repository, "v1").status == 404


def test_only_one_of_the_registries_tells_what_refers_to_an_image(registry: Registry, push: Push) -> None:
    image = push(registry)

    answer = registry.client.referrers(image.repository, image.digest)

    if registry.kind is Kind.REFERRERS:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == IMAGE_INDEX
        assert not answer.json()["manifests"]
    else:
        assert answer.status == 404


def test_a_client_that_does_not_know_the_authority_refuses_the_registry(
    registry: Registry, tmp_path: Path
) -> None:
    stranger = Client(registry.url, Authority(tmp_path).ca_file)

    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        stranger.request("GET", "/v2/")


def _raise_reason(call: Callable[[], object]) -> None:
    """Raise what urllib wraps: its own message names neither cause nor kind."""
    try:
        call()
    except OSError as error:
        raise getattr(error, "reason", error) from error
