"""Images on their way into a runtime: streamed as an archive, checked, counted."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rig.runtimes import image_contents, images
from schedkit.model.images.references import Descriptor
from schedkit.runtimes.containerd.images import chain_id
from schedkit.runtimes.errors import BrokenImageError
from schedkit.runtimes.image_content import ImageContent, Meter, Progress
from schedkit.runtimes.podman.archive import archive


@pytest.fixture
def image(tmp_path: Path) -> ImageContent:
    images.write_layout([images.Image("program", b"#!/bin/false\n")], tmp_path / "layout")
    return image_contents.content(tmp_path / "layout")


def test_an_archive_is_a_layout_under_the_images_name(image: ImageContent) -> None:
    whole = b"".join(archive(image, Meter(image, lambda _: None)))

    with tarfile.open(fileobj=io.BytesIO(whole)) as files:
        found = {name: _content(files, name) for name in files.getnames()}
    [top] = json.loads(found.pop("index.json"))["manifests"]
    assert (top["digest"], top["annotations"]) == (
        image.manifest.descriptor.digest,
        {"org.opencontainers.image.ref.name": image.reference},
    )
    assert json.loads(found.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    blobs = [image.manifest.descriptor, image.config.descriptor, *image.layers]
    assert {name: len(data) for name, data in found.items()} == {
        f"blobs/{blob.digest.replace(':', '/')}": blob.size for blob in blobs
    }


def test_a_layer_is_never_read_ahead_of_who_takes_it(image: ImageContent) -> None:
    taken = []

    def noted(layer: Descriptor) -> Iterator[bytes]:
        for piece in image.read(layer):
            taken.append(piece)
            yield piece

    stream = archive(replace(image, read=noted), Meter(image, lambda _: None))
    for _ in range(12):  # headers, contents and paddings of the four small files
        next(stream)

    assert not taken


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(lambda layer: layer[:-1], "1 bytes shorter", id="too short"),
        pytest.param(lambda layer: layer + b"x", "longer", id="too long"),
        pytest.param(lambda layer: b"x" + layer[1:], "do not match its digest", id="changed"),
    ],
)
def test_no_archive_is_finished_around_a_broken_layer(
    image: ImageContent, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    broken = replace(image, read=lambda layer: [spoil(b"".join(image.read(layer)))])

    with pytest.raises(BrokenImageError, match=reason):
        b"".join(archive(broken, Meter(image, lambda _: None)))


def test_progress_is_told_once_per_step_and_ends_with_the_whole(image: ImageContent) -> None:
    seen: list[Progress] = []
    meter = Meter(image, seen.append)

    assert list(meter.count([b"ab", b"", b"c"])) == [b"ab", b"", b"c"]
    meter.reach(2)
    meter.reach(image.layer_bytes)

    assert [one.done_bytes for one in seen] == [2, 3, image.layer_bytes]


def test_the_name_of_a_chain_depends_on_every_layer() -> None:
    assert chain_id(("sha256:a",)) == "sha256:a"
    assert (
        len({chain_id(ids) for ids in (("sha256:a", "sha256:b"), ("sha256:b", "sha256:a"), ("sha256:a",))})
        == 3
    )


def _content(files: tarfile.TarFile, name: str) -> bytes:
    file = files.extractfile(name)
    assert file is not None
    return file.read()
