"""Images on their way into a runtime: checked first, streamed as an archive, counted."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rig import contents, images
from schedkit.runtimes.containerd.images import chain_id
from schedkit.runtimes.errors import BrokenImageError, WrongPlatformError
from schedkit.runtimes.image_content import ImageContent, Meter, Progress, parts_of
from schedkit.runtimes.podman.archive import archive


@pytest.fixture
def image(tmp_path: Path) -> ImageContent:
    images.write_layout([images.Image("program", b"#!/bin/false\n")], tmp_path / "layout")
    return contents.content(tmp_path / "layout")


def changed_config(image: ImageContent, **changes: object) -> ImageContent:
    """The image with another configuration, named and counted as it must be."""
    return contents.with_config(image, json.dumps(json.loads(image.config) | changes).encode())


def test_a_whole_image_is_accepted(image: ImageContent) -> None:
    parts = parts_of(image, architecture="amd64")

    assert image.reference.endswith(parts.manifest.digest)
    assert len(parts.layers) == len(parts.diff_ids) == 1


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(
            lambda image: replace(image, manifest=image.manifest + b" "),
            "its manifest has the digest",
            id="other manifest",
        ),
        pytest.param(
            lambda image: replace(image, config=image.config + b" "),
            "another digest",
            id="other configuration",
        ),
        pytest.param(
            lambda image: replace(image, manifest=b"<html>"), "no image that can be run", id="no JSON"
        ),
        pytest.param(
            lambda image: replace(image, manifest=b"[]"), "no image that can be run", id="no object"
        ),
        pytest.param(
            lambda image: changed_config(image, rootfs={"diff_ids": []}),
            "other layers",
            id="layers that nobody listed",
        ),
        pytest.param(
            lambda image: changed_config(image, rootfs=7), "no image that can be run", id="no list of layers"
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(image: ImageContent, spoil: object, reason: str) -> None:
    assert callable(spoil)

    with pytest.raises(BrokenImageError, match=reason):
        parts_of(spoil(image), architecture="amd64")


def test_an_index_is_no_image_of_one_platform(image: ImageContent) -> None:
    index = json.loads(image.manifest) | {"mediaType": "application/vnd.oci.image.index.v1+json"}

    with pytest.raises(BrokenImageError, match="is no image of one platform"):
        parts_of(contents.with_manifest(image, json.dumps(index).encode()), architecture="amd64")


def test_another_platform_is_named_beside_ours(image: ImageContent) -> None:
    with pytest.raises(WrongPlatformError, match="is for linux/amd64, this machine is linux/riscv64"):
        parts_of(image, architecture="riscv64")


def test_an_archive_is_a_layout_under_the_images_name(image: ImageContent) -> None:
    parts = parts_of(image, architecture="amd64")

    whole = b"".join(archive(image, parts, Meter(parts, lambda _: None)))

    with tarfile.open(fileobj=io.BytesIO(whole)) as files:
        found = {name: _content(files, name) for name in files.getnames()}
    [top] = json.loads(found.pop("index.json"))["manifests"]
    assert (top["digest"], top["annotations"]) == (
        parts.manifest.digest,
        {"org.opencontainers.image.ref.name": image.reference},
    )
    assert json.loads(found.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    blobs = [parts.manifest, parts.config, *parts.layers]
    assert {name: len(data) for name, data in found.items()} == {
        f"blobs/{blob.digest.replace(':', '/')}": blob.size for blob in blobs
    }


def test_a_layer_is_never_read_ahead_of_who_takes_it(image: ImageContent) -> None:
    parts = parts_of(image, architecture="amd64")
    taken = []

    def noted(digest: str) -> Iterator[bytes]:
        for piece in image.read(digest):
            taken.append(piece)
            yield piece

    stream = archive(replace(image, read=noted), parts, Meter(parts, lambda _: None))
    for _ in range(12):  # headers, contents and paddings of the four small files
        next(stream)

    assert not taken


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(lambda layer: layer[:-1], "1 bytes shorter", id="too short"),
        pytest.param(lambda layer: layer + b"x", "longer", id="too long"),
        pytest.param(lambda layer: b"x" + layer[1:], "not those of its digest", id="changed"),
    ],
)
def test_no_archive_is_finished_around_a_broken_layer(
    image: ImageContent, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    parts = parts_of(image, architecture="amd64")
    broken = replace(image, read=lambda digest: [spoil(b"".join(image.read(digest)))])

    with pytest.raises(BrokenImageError, match=reason):
        b"".join(archive(broken, parts, Meter(parts, lambda _: None)))


def test_progress_is_told_once_per_step_and_ends_with_the_whole(image: ImageContent) -> None:
    parts = parts_of(image, architecture="amd64")
    seen: list[Progress] = []
    meter = Meter(parts, seen.append)

    assert list(meter.count([b"ab", b"", b"c"])) == [b"ab", b"", b"c"]
    meter.reach(2)
    meter.reach(parts.layer_bytes)

    assert [one.done_bytes for one in seen] == [2, 3, parts.layer_bytes]


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
