"""The rig's images are what runtimes and registries expect, byte for byte the same each time."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rig.base.errors import RigError
from rig.guest import schedulers
from rig.runtimes import images

Document: TypeAlias = dict[str, Any]

PROGRAM = b"\x7fELF a static program"
IMAGE = images.Image("scx_rig_fifo", PROGRAM, images.scheduler_labels("fifo"))
OTHER_PLATFORM = replace(IMAGE, program=b"\x7fELF for another machine", architecture="arm64")


def blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / digest.replace(":", "/")).read_bytes()


def document(layout: Path, digest: str) -> Document:
    found: Document = json.loads(blob(layout, digest))
    return found


def content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    images.write_layout([IMAGE], tmp_path)
    return tmp_path


@pytest.fixture
def manifest(layout: Path) -> Document:
    return document(layout, images.digest(layout))


def test_the_same_program_and_labels_give_the_same_digest(tmp_path: Path) -> None:
    first = images.write_layout([IMAGE], tmp_path / "first")
    second = images.write_layout([IMAGE], tmp_path / "second")

    assert first == second


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(IMAGE, program=b"other"), id="another program"),
        pytest.param(replace(IMAGE, labels={}), id="other labels"),
        pytest.param(replace(IMAGE, user="1000"), id="another user"),
        pytest.param(replace(IMAGE, architecture="arm64"), id="another platform"),
    ],
)
def test_whatever_differs_shows_in_the_digest(changed: images.Image, tmp_path: Path) -> None:
    plain = images.write_layout([IMAGE], tmp_path / "plain")

    assert images.write_layout([changed], tmp_path / "changed") != plain


def test_every_blob_lies_under_its_own_digest(layout: Path) -> None:
    blobs = list((layout / "blobs/sha256").iterdir())

    assert len(blobs) == 3
    assert [hashlib.sha256(file.read_bytes()).hexdigest() for file in blobs] == [file.name for file in blobs]


def test_descriptors_name_the_true_size(layout: Path, manifest: Document) -> None:
    for part in (manifest["config"], *manifest["layers"]):
        assert part["size"] == len(blob(layout, part["digest"]))


def test_the_diff_id_is_the_digest_of_the_uncompressed_layer(layout: Path, manifest: Document) -> None:
    """Runtimes compare it after unpacking; the digest in the manifest is that of the compressed layer."""
    tree = gzip.decompress(blob(layout, manifest["layers"][0]["digest"]))

    diff_ids = document(layout, manifest["config"]["digest"])["rootfs"]["diff_ids"]

    assert diff_ids == [f"sha256:{hashlib.sha256(tree).hexdigest()}"]


def test_the_entrypoint_is_an_executable_in_the_layer(layout: Path, manifest: Document) -> None:
    (entrypoint,) = document(layout, manifest["config"]["digest"])["config"]["Entrypoint"]
    tree = gzip.decompress(blob(layout, manifest["layers"][0]["digest"]))

    with tarfile.open(fileobj=io.BytesIO(tree)) as root:
        entry = root.getmember(entrypoint.lstrip("/"))
        assert entry.mode == 0o755
        assert content(root, entry.name) == PROGRAM


def test_a_scheduler_carries_the_labels_users_rely_on(layout: Path, manifest: Document) -> None:
    labels = document(layout, manifest["config"]["digest"])["config"]["Labels"]

    keys = ["title", "description", "documentation", "source", "version"]
    expected = {
        *(f"org.opencontainers.image.{key}" for key in keys),
        "org.schedkit.scheduler.kernel.min-version",
    }
    assert set(labels) == expected
    assert all(labels.values())


def test_an_index_names_one_manifest_per_platform(tmp_path: Path) -> None:
    index = document(tmp_path, images.write_layout([IMAGE, OTHER_PLATFORM], tmp_path))

    assert [one["platform"]["architecture"] for one in index["manifests"]] == ["amd64", "arm64"]
    for one in index["manifests"]:
        config = document(tmp_path, document(tmp_path, one["digest"])["config"]["digest"])
        assert config["architecture"] == one["platform"]["architecture"]


def test_an_archive_is_named_for_containerd_and_for_docker(layout: Path, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"

    images.write_archive(layout, "registry.rig.test:5000/scx/rig_fifo:v1", archive)

    with tarfile.open(archive) as files:
        names = files.getnames()
        (top,) = json.loads(content(files, "index.json"))["manifests"]
        (docker,) = json.loads(content(files, "manifest.json"))
    assert top["digest"] == images.digest(layout)
    assert top["annotations"]["io.containerd.image.name"] == "registry.rig.test:5000/scx/rig_fifo:v1"
    assert docker["RepoTags"] == ["registry.rig.test:5000/scx/rig_fifo:v1"]
    assert {docker["Config"], *docker["Layers"], "oci-layout"} <= set(names)


@pytest.mark.parametrize("reference", ["rig_fifo", "rig_fifo:v1", "127.0.0.1:5000/scx/rig_fifo"])
def test_a_reference_that_names_no_tag_is_refused(reference: str, layout: Path, tmp_path: Path) -> None:
    with pytest.raises(RigError, match=re.escape(reference)):
        images.write_archive(layout, reference, tmp_path / "image.tar")


def test_ops_names_fit_the_kernel_and_only_the_alias_hides_its_own() -> None:
    for name, scheduler in schedulers.catalog().items():
        assert len(scheduler.ops_name) < 128
        assert (scheduler.ops_name in scheduler.file_name) == (name != "alias")
