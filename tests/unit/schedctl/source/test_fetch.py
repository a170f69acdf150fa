"""An image on its way into a runtime: found once, parsed once, its platform judged once."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.images import manifests
from schedkit.model.images.configs import machine_of, platform_of
from schedkit.model.images.content import Content, content_of
from schedkit.model.images.references import Descriptor, Digest, Reference, Repository, parse_reference
from schedkit.oci.errors import Refused
from schedkit.oci.images.layout import Layout
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.source import fetch

NAME = parse_reference("registry.rig.test/rig/program:1")
LAYER = b"no layer of anything"
CONFIG = "application/vnd.oci.image.config.v1+json"
HERE = platform_of(os.uname().machine).architecture


class Counting(Layout):
    """A layout that notes what it is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked: list[str] = []

    def resolve(self, reference: Reference) -> Content:
        self.asked.append("resolve")
        return super().resolve(reference)

    def manifest(self, repository: Repository, digest: Digest) -> Content:
        self.asked.append("manifest")
        return super().manifest(repository, digest)


def publish(folder: Path, **config: object) -> Counting:
    """A layout with one image: of one layer, and with this configuration."""
    layout = Counting(folder)
    layer = content_of(LAYER, "application/vnd.oci.image.layer.v1.tar")
    said = {"os": "linux", "architecture": HERE, "rootfs": {"diff_ids": [layer.descriptor.digest]}} | config
    document = content_of(json.dumps(said).encode(), CONFIG)
    for part in (layer, document):
        layout.push_blob(NAME.repository, part.descriptor, partial(list[bytes], [part.data]))
    manifest = manifests.render_manifest(config=document.descriptor, layers=(layer.descriptor,))
    layout.push_manifest(NAME.repository, content_of(manifest), tag="1")
    return layout


def test_an_image_is_resolved_once_and_handed_on_as_it_was_read(tmp_path: Path) -> None:
    layout = publish(tmp_path)

    found = fetch.find(layout, NAME)
    image = fetch.content(layout, found, UNSIGNED)

    assert layout.asked == ["resolve"]
    assert image.reference == str(NAME.repository) + "@" + found.named.descriptor.digest
    assert (found.named, image.manifest) == (found.manifest, found.manifest)
    assert b"".join(image.read(image.layers[0])) == LAYER
    assert image.diff_ids == (image.layers[0].digest,)
    assert image.admission is UNSIGNED


@pytest.mark.parametrize("diff_ids", [[], ["sha256:" + "0" * 64] * 2], ids=["none", "one too many"])
def test_a_configuration_about_other_layers_is_refused(tmp_path: Path, diff_ids: list[str]) -> None:
    with pytest.raises(Refused, match="its configuration lists other layers than its manifest"):
        fetch.find(publish(tmp_path, rootfs={"diff_ids": diff_ids}), NAME)


@pytest.mark.parametrize("config", [{"rootfs": 7}, {"rootfs": {"diff_ids": 7}}, {"os": None}])
def test_a_configuration_that_is_none_is_refused(tmp_path: Path, config: dict[str, object]) -> None:
    with pytest.raises(Refused, match="cannot be used"):
        fetch.find(publish(tmp_path, **config), NAME)


def test_another_platform_is_named_beside_ours(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is not for this machine") as caught:
        fetch.find(publish(tmp_path, architecture="riscv64"), NAME)

    assert caught.value.why == f"it is for linux/riscv64, this machine is linux/{HERE}"


def test_an_index_is_read_once_and_names_the_image_that_was_meant(tmp_path: Path) -> None:
    layout = publish(tmp_path)
    one = layout.resolve(NAME)
    entry = Descriptor(
        one.descriptor.media_type,
        one.descriptor.digest,
        one.descriptor.size,
        platform=platform_of(machine_of(HERE)),
    )
    index = content_of(manifests.render_index([entry]), manifests.IMAGE_INDEX)
    layout.push_manifest(NAME.repository, index, tag="1")
    layout.asked.clear()

    found = fetch.find(layout, NAME)

    assert layout.asked == ["resolve", "manifest"]
    assert found.reference.digest == index.descriptor.digest == found.named.descriptor.digest
    assert found.manifest == one
