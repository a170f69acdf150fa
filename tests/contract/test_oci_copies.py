"""Images copied between real registries and through a layout are whole: cosign verifies them at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.base import processes
from rig.base.certificates import Authority
from rig.build import debian
from rig.registries.registry import Kind, Pushed
from rig.registries.registry import Registry as RunningRegistry
from rig.runtimes import images
from rig.signatures.cosign import Cosign, Key
from schedkit.model.images import manifests
from schedkit.model.images.content import content_of, digest_of
from schedkit.model.images.references import Descriptor, Digest, Reference, Repository, parse_reference
from schedkit.oci.errors import NotFound, RegistryError, TooLarge
from schedkit.oci.images.copying import Limits, copy
from schedkit.oci.images.layout import Layout
from schedkit.oci.registry.client import Registry, Settings

Push = Callable[[RunningRegistry], Pushed]


@pytest.fixture(scope="module")
def client(authority: Authority) -> Iterator[Registry]:
    with Registry(Settings(ca_file=authority.ca_file)) as client:
        yield client


@pytest.fixture(scope="module")
def key(cosign: Cosign) -> Key:
    return cosign.new_key()


@pytest.fixture(scope="module")
def other_registry(
    registry: RunningRegistry, request: pytest.FixtureRequest, folder: Path, authority: Authority
) -> Iterator[RunningRegistry]:
    """One of the other kind: what the first keeps as a tag, the second knows by itself, and the other way."""
    (kind,) = set(Kind) - {registry.kind}
    with RunningRegistry(kind, folder / request.module.__name__ / f"other-{kind}", authority) as other:
        yield other


def _named(image: Pushed) -> Reference:
    return parse_reference(image.reference)


def _place(registry: RunningRegistry, image: Pushed, tag: str | None = "copied") -> Reference:
    return Reference(Repository(registry.host, f"copies/{image.repository}"), tag=tag)


def test_signatures_come_along_through_a_layout(
    client: Registry,
    registry: RunningRegistry,
    other_registry: RunningRegistry,
    cosign: Cosign,
    key: Key,
    push: Push,
    tmp_path: Path,
) -> None:
    image = push(registry)
    cosign.sign(image.reference, key)
    layout, target = Layout(tmp_path / "layout"), _place(other_registry, image)

    copy(client, layout, _named(image), Reference(_named(image).repository, tag="v1"))
    copied = copy(layout, client, Reference(_named(image).repository, tag="v1"), target)

    assert copied.digest == image.digest
    assert len(copied.referrers) + len(copied.tags) == 1
    assert client.resolve(target).descriptor.digest == image.digest
    assert cosign.verify(f"{target.repository}@{image.digest}", key).accepted


def test_an_image_with_several_platforms_is_copied_with_all_of_them(
    client: Registry, registry: RunningRegistry, other_registry: RunningRegistry, tmp_path: Path
) -> None:
    both = [images.Image("tool", b"#!/bin/false\n", architecture=each) for each in ("amd64", "arm64")]
    images.write_layout(both, tmp_path)
    registry.client.push(tmp_path, "rig/platforms", "v1")
    source = Reference(Repository(registry.host, "rig/platforms"), tag="v1")
    target = Reference(Repository(other_registry.host, "rig/platforms"), tag="v1")

    copy(client, client, source, target)

    index = manifests.parse_index(client.resolve(target).data)
    assert len(index.manifests) == 2
    for entry in index.manifests:
        manifest = manifests.parse_manifest(client.manifest(target.repository, entry.digest).data)
        assert client.blob(target.repository, manifest.layers[0], limit=2**20)


def test_a_second_copy_moves_nothing(
    client: Registry, registry: RunningRegistry, other_registry: RunningRegistry, push: Push
) -> None:
    image = push(registry)

    first = copy(client, client, _named(image), _place(other_registry, image))
    second = copy(client, client, _named(image), _place(other_registry, image))

    assert first.moved_bytes > 0
    assert second.moved_bytes == 0
    assert second.total_bytes == first.total_bytes


def test_inside_a_registry_blobs_are_mounted_and_not_moved(
    client: Registry, registry: RunningRegistry, push: Push
) -> None:
    image = push(registry)

    copied = copy(client, client, _named(image), _place(registry, image))

    assert copied.moved_bytes == 0
    assert client.resolve(_place(registry, image)).descriptor.digest == image.digest


def test_a_copy_over_the_limit_ends_without_a_tag(
    client: Registry, registry: RunningRegistry, push: Push
) -> None:
    image = push(registry)
    target = _place(registry, image, "too-large")

    with pytest.raises(TooLarge, match="more than 600 bytes to copy"):
        copy(client, client, _named(image), target, limits=Limits(total_bytes=600))
    with pytest.raises(RegistryError):
        client.resolve(target)


def test_a_referrer_is_listed_however_the_registry_lists_it(
    client: Registry, registry: RunningRegistry, push: Push
) -> None:
    """Once by itself, once with its neighbour: the second does not push the first from the list."""
    image = push(registry)
    repository, subject = _named(image).repository, client.resolve(_named(image)).descriptor
    config = Descriptor(manifests.EMPTY_CONFIG, digest_of(b"{}"), 2)
    client.push_blob(repository, config, lambda: [b"{}"])

    pushed = [_push_referrer(client, repository, subject, config, name) for name in ("one", "two", "two")]

    assert {entry.digest for entry in client.referrers(repository, subject.digest)} == set(pushed)


def _push_referrer(
    client: Registry, repository: Repository, subject: Descriptor, config: Descriptor, name: str
) -> Digest:
    content = manifests.render_manifest(config=config, subject=subject, annotations={"name": name})
    client.push_manifest(repository, content_of(content))
    return digest_of(content)


def test_a_layout_reads_like_the_registry_it_was_copied_from(
    client: Registry, registry: RunningRegistry, push: Push, tmp_path: Path
) -> None:
    image = push(registry)
    name = Reference(_named(image).repository, tag="v1")
    layout = Layout(tmp_path)

    copy(client, layout, name, name)

    assert layout.resolve(name) == client.resolve(name)
    assert layout.tags(name.repository) == client.tags(name.repository) == ("v1",)
    (layer,) = manifests.parse_manifest(layout.resolve(name).data).layers
    from_registry = client.blob(name.repository, layer, limit=layer.size)
    assert layout.blob(name.repository, layer, limit=layer.size) == from_registry
    with pytest.raises(NotFound):
        layout.manifest(name.repository, digest_of(b"nothing"))


@pytest.fixture(scope="session")
def skopeo(folder: Path) -> Callable[..., str]:
    """The tool that most people move images with."""
    tree = debian.machine().tree("skopeo", ["skopeo"])
    policy = folder / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    environment = {"LD_LIBRARY_PATH": debian.library_path(tree), "HOME": str(folder)}

    def run(*arguments: str) -> str:
        argv: list[str | Path] = [tree / "usr/bin/skopeo", "--policy", policy, *arguments]
        return processes.run(argv, env=environment, timeout_s=60).stdout

    return run


def test_skopeo_reads_our_layout_and_we_read_its(
    client: Registry, any_registry: RunningRegistry, push: Push, skopeo: Callable[..., str], tmp_path: Path
) -> None:
    image = push(any_registry)
    name = Reference(_named(image).repository, tag="v1")
    copy(client, Layout(tmp_path / "ours"), name, name)

    skopeo("copy", f"oci:{tmp_path / 'ours'}:{name}", f"oci:{tmp_path / 'theirs'}:v1")

    theirs = Layout(tmp_path / "theirs")
    assert theirs.resolve(name).descriptor.digest == image.digest
    (layer,) = manifests.parse_manifest(theirs.resolve(name).data).layers
    assert digest_of(theirs.blob(name.repository, layer, limit=layer.size)) == layer.digest
