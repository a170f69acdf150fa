"""A layout on disk: whole or not there, read with suspicion, and shared by several writers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schedkit.model.images import manifests
from schedkit.model.images.content import Content, content_of, digest_of
from schedkit.model.images.references import Descriptor, Digest, Reference, Repository
from schedkit.oci.errors import NotFound, Refused, RegistryError, TooLarge, Unreachable
from schedkit.oci.images.copying import Limits, copy
from schedkit.oci.images.layout import Layout
from schedkit.oci.images.ports import Reader

HERE = Repository("quay.io", "a")
CONFIG = Descriptor(manifests.EMPTY_CONFIG, digest_of(b"{}"), 2)
BLOB = b"something" * 100_000
BLOB_ENTRY = Descriptor("application/x", digest_of(BLOB), len(BLOB))


def _image(name: str = "one", subject: Descriptor | None = None) -> Content:
    data = manifests.render_manifest(config=CONFIG, subject=subject, annotations={"name": name})
    return content_of(data)


def _pushed(layout: Layout, content: Content, tag: str | None = "v1", repository: Repository = HERE) -> None:
    layout.push_blob(repository, CONFIG, lambda: [b"{}"])
    layout.push_manifest(repository, content, tag=tag)


def _blob_file(folder: Path, digest: Digest) -> Path:
    return folder / "blobs/sha256" / digest.encoded


def test_what_was_pushed_is_found_by_tag_and_digest(tmp_path: Path) -> None:
    layout, image = Layout(tmp_path / "new/folder"), _image()

    _pushed(layout, image)

    assert layout.resolve(Reference(HERE, tag="v1")) == image
    assert layout.resolve(Reference(HERE, tag="other", digest=image.descriptor.digest)) == image
    assert layout.manifest(HERE, image.descriptor.digest) == image
    assert layout.blob(HERE, CONFIG, limit=2) == b"{}"


@pytest.mark.parametrize("linked", ["blobs", "blobs/sha256"])
def test_nothing_is_written_or_read_through_a_link_in_a_layout(tmp_path: Path, linked: str) -> None:
    """Who handed the folder over could have put anything there."""
    layout, elsewhere = Layout(tmp_path / "layout"), tmp_path / "elsewhere"
    _pushed(layout, _image())
    (tmp_path / "layout" / linked).rename(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    (tmp_path / "layout" / linked).symlink_to(elsewhere)

    with pytest.raises(Unreachable, match="links are not followed"):
        layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])
    with pytest.raises(Unreachable, match="links are not followed"):
        layout.resolve(Reference(HERE, tag="v1"))

    assert sorted(elsewhere.rglob("*")) == before


def test_a_blob_of_the_right_size_with_other_content_is_replaced(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])
    _blob_file(tmp_path, BLOB_ENTRY.digest).write_bytes(b"?" * len(BLOB))

    assert layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])
    assert not layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])
    assert layout.blob(HERE, BLOB_ENTRY, limit=len(BLOB)) == BLOB


def test_a_layout_is_one_as_others_understand_it(tmp_path: Path) -> None:
    _pushed(Layout(tmp_path), _image())

    assert json.loads((tmp_path / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads((tmp_path / "index.json").read_bytes())["manifests"]
    assert entry["digest"] == _image().descriptor.digest
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "quay.io/a:v1"
    assert stat_modes(tmp_path) == {0o644}


def stat_modes(folder: Path) -> set[int]:
    return {file.stat().st_mode & 0o777 for file in folder.rglob("*") if file.is_file()}


def test_a_layout_holds_several_repositories(tmp_path: Path) -> None:
    layout, there = Layout(tmp_path), Repository("quay.io", "b")

    _pushed(layout, _image("one"), "v1")
    _pushed(layout, _image("two"), "v1", there)
    _pushed(layout, _image("two"), "v2", there)

    assert layout.resolve(Reference(HERE, tag="v1")) == _image("one")
    assert layout.resolve(Reference(there, tag="v1")) == _image("two")
    assert (layout.tags(HERE), layout.tags(there)) == (("v1",), ("v1", "v2"))


def test_a_tag_moves(tmp_path: Path) -> None:
    layout = Layout(tmp_path)

    _pushed(layout, _image("one"))
    _pushed(layout, _image("two"))

    assert layout.resolve(Reference(HERE, tag="v1")) == _image("two")
    assert layout.tags(HERE) == ("v1",)


def test_the_layout_of_another_tool_is_read_for_every_repository(tmp_path: Path) -> None:
    """Such as skopeo's, where a name is a tag, and where manifests need not say what they are."""
    layout = Layout(tmp_path)
    image = _image()
    _pushed(layout, image)
    index = json.loads((tmp_path / "index.json").read_bytes())
    index["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "v1"}
    del index["mediaType"]
    (tmp_path / "index.json").write_text(json.dumps(index))

    assert layout.resolve(Reference(Repository("any.test", "x"), tag="v1")) == image
    assert layout.tags(Repository("any.test", "x")) == ("v1",)


def test_referrers_are_listed(tmp_path: Path) -> None:
    layout, image = Layout(tmp_path), _image()
    signatures = [_image(name, subject=image.descriptor) for name in ("one", "two", "two")]

    _pushed(layout, image)
    for signature in signatures:
        _pushed(layout, signature, tag=None)

    found = layout.referrers(HERE, image.descriptor.digest)
    assert [entry.digest for entry in found] == [each.descriptor.digest for each in signatures[:2]]
    assert layout.referrers(HERE, signatures[0].descriptor.digest) == ()


def test_what_is_not_there_is_told_with_what_there_is(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    _pushed(layout, _image())

    with pytest.raises(NotFound, match=r"has no quay\.io/a:v2: it has 'quay\.io/a:v1'"):
        layout.resolve(Reference(HERE, tag="v2"))
    with pytest.raises(NotFound, match="does not hold"):
        layout.manifest(HERE, digest_of(b"nothing"))
    with pytest.raises(NotFound):
        layout.blob(HERE, BLOB_ENTRY, limit=len(BLOB))


def test_a_folder_that_is_no_layout_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not an image layout: it has no oci-layout"):
        Layout(tmp_path).tags(HERE)


def test_a_layout_of_another_version_is_refused(tmp_path: Path) -> None:
    _pushed(Layout(tmp_path), _image())
    (tmp_path / "oci-layout").write_text('{"imageLayoutVersion": "2.0.0"}')

    with pytest.raises(Refused, match=r"version '2\.0\.0'"):
        Layout(tmp_path).tags(HERE)


def _swap(file: Path) -> None:
    file.write_bytes(BLOB[::-1])


def _grow(file: Path) -> None:
    file.write_bytes(BLOB + b"x")


def _shrink(file: Path) -> None:
    file.write_bytes(BLOB[:-1])


def _link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("sabotage", [_swap, _grow, _shrink, _link, _pipe])
def test_a_blob_that_was_tampered_with_is_not_used(tmp_path: Path, sabotage: Callable[[Path], None]) -> None:
    layout = Layout(tmp_path)
    layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])
    assert layout.blob(HERE, BLOB_ENTRY, limit=len(BLOB)) == BLOB

    sabotage(_blob_file(tmp_path, BLOB_ENTRY.digest))

    with pytest.raises(Refused if sabotage in {_swap, _grow, _shrink} else Unreachable):
        layout.blob(HERE, BLOB_ENTRY, limit=len(BLOB))


def test_a_manifest_that_was_tampered_with_is_not_used(tmp_path: Path) -> None:
    layout, image = Layout(tmp_path), _image()
    _pushed(layout, image)
    _blob_file(tmp_path, image.descriptor.digest).write_bytes(_image("other").data)

    with pytest.raises(Refused, match="was requested"):
        layout.resolve(Reference(HERE, tag="v1"))


def test_a_huge_index_is_not_read_to_its_end(tmp_path: Path) -> None:
    _pushed(Layout(tmp_path), _image())
    (tmp_path / "index.json").write_bytes(b" " * (manifests.LARGEST_MANIFEST + 1))

    with pytest.raises(TooLarge):
        Layout(tmp_path).tags(HERE)


def test_a_blob_over_the_limit_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(TooLarge):
        Layout(tmp_path).blob(HERE, BLOB_ENTRY, limit=1)


def _breaking_off() -> Iterator[bytes]:
    yield BLOB[:1000]
    raise Unreachable("the registry went away")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(_breaking_off, Unreachable, id="broken off"),
        pytest.param(lambda: [BLOB[::-1]], Refused, id="something else"),
        pytest.param(lambda: [BLOB, b"x"], Refused, id="too much"),
    ],
)
def test_a_blob_that_did_not_come_whole_leaves_no_trace(
    tmp_path: Path, pieces: Reader, expected: type[RegistryError]
) -> None:
    layout = Layout(tmp_path)

    with pytest.raises(expected):
        layout.push_blob(HERE, BLOB_ENTRY, pieces)

    assert list((tmp_path / "blobs/sha256").iterdir()) == []
    assert layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])


def test_a_blob_is_read_only_if_it_is_needed(tmp_path: Path) -> None:
    layout = Layout(tmp_path)

    assert layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])
    assert not layout.push_blob(HERE, BLOB_ENTRY, _breaking_off)


def test_a_blob_of_the_wrong_size_is_written_anew(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])
    _shrink(_blob_file(tmp_path, BLOB_ENTRY.digest))

    assert layout.push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])
    assert layout.blob(HERE, BLOB_ENTRY, limit=len(BLOB)) == BLOB


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    names = [f"v{number}" for number in range(20)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: _pushed(Layout(tmp_path), _image(name), name), names))

    assert Layout(tmp_path).tags(HERE) == tuple(sorted(names))


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("in the way")

    with pytest.raises(RegistryError, match="cannot be written"):
        Layout(tmp_path).push_blob(HERE, BLOB_ENTRY, lambda: [BLOB])


def test_documents_that_point_at_each_other_do_not_lead_a_copy_around_for_ever(tmp_path: Path) -> None:
    """Referrers of referrers of referrers: nobody has reason to go that far."""
    layout, subject = Layout(tmp_path / "from"), _image()
    _pushed(layout, subject)
    previous = subject
    for number in range(12):
        previous = _image(str(number), subject=previous.descriptor)
        _pushed(layout, previous, tag=None)

    with pytest.raises(Refused, match="more than 8 levels deep"):
        copy(layout, Layout(tmp_path / "to"), Reference(HERE, tag="v1"), Reference(HERE, tag="v1"))


def test_what_does_not_refer_to_an_image_is_not_copied_with_it(tmp_path: Path) -> None:
    """A list may say what it likes; only a manifest's own subject counts."""
    source, target = Layout(tmp_path / "from"), Layout(tmp_path / "to")
    image, stranger = _image(), _image("stranger")
    for content, tag in ((image, "v1"), (stranger, None)):
        _pushed(source, content, tag)
    entry = manifests.referrer_entry(stranger.descriptor, manifests.parse_manifest(stranger.data))
    lie = content_of(manifests.render_index([entry]), manifests.IMAGE_INDEX)
    source.push_manifest(HERE, lie, tag=image.descriptor.digest.fallback_tag)

    copied = copy(source, target, Reference(HERE, tag="v1"), Reference(HERE, tag="v1"))

    assert copied.referrers == []
    with pytest.raises(NotFound):
        target.manifest(HERE, stranger.descriptor.digest)


class _Counting(Layout):
    """Remembers which manifests were asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked: list[Digest] = []

    def manifest(self, repository: Repository, digest: Digest) -> Content:
        self.asked.append(digest)
        return super().manifest(repository, digest)


def _claimed(layout: Layout, image: Content, claims: list[Descriptor]) -> None:
    """Let the list of what refers to the image say so."""
    lie = content_of(manifests.render_index(claims), manifests.IMAGE_INDEX)
    layout.push_manifest(HERE, lie, tag=image.descriptor.digest.fallback_tag)


def test_a_crowd_of_strangers_is_not_fetched_to_mirror_an_image(tmp_path: Path) -> None:
    source, image = _Counting(tmp_path / "from"), _image()
    strangers = [_image(f"stranger {number}") for number in range(70)]
    for content, tag in ((image, "v1"), *((stranger, None) for stranger in strangers)):
        _pushed(source, content, tag)
    _claimed(source, image, [stranger.descriptor for stranger in strangers])

    copied = copy(source, Layout(tmp_path / "to"), Reference(HERE, tag="v1"), Reference(HERE, tag="v1"))

    assert len(source.asked) == 64
    assert "6 of 70 documents" in copied.warnings[0]


def test_what_is_fetched_and_left_out_counts(tmp_path: Path) -> None:
    source, image = Layout(tmp_path / "from"), _image()
    strangers = [_image(f"stranger {number}") for number in range(5)]
    for content, tag in ((image, "v1"), *((stranger, None) for stranger in strangers)):
        _pushed(source, content, tag)
    _claimed(source, image, [stranger.descriptor for stranger in strangers])

    with pytest.raises(TooLarge, match="more than 4 documents to fetch"):
        copy(
            source,
            Layout(tmp_path / "to"),
            Reference(HERE, tag="v1"),
            Reference(HERE, tag="v1"),
            limits=Limits(documents=4),
        )


def test_a_stranger_named_again_and_again_is_fetched_once(tmp_path: Path) -> None:
    source, image, stranger = _Counting(tmp_path / "from"), _image(), _image("stranger")
    _pushed(source, image)
    _pushed(source, stranger, tag=None)
    _claimed(source, image, [stranger.descriptor] * 50)

    copy(source, Layout(tmp_path / "to"), Reference(HERE, tag="v1"), Reference(HERE, tag="v1"))

    assert source.asked == [stranger.descriptor.digest]


def test_a_referrer_that_is_listed_and_not_there_is_told_and_left_out(tmp_path: Path) -> None:
    source, target, image = Layout(tmp_path / "from"), Layout(tmp_path / "to"), _image()
    _pushed(source, image)
    _claimed(source, image, [_image("gone").descriptor])

    copied = copy(source, target, Reference(HERE, tag="v1"), Reference(HERE, tag="v1"))

    assert "is not copied, because it is missing" in copied.warnings[0]
    assert target.resolve(Reference(HERE, tag="v1")) == image
