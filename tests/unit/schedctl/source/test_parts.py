"""The parts behind the verbs of `schedctl`: places, mirrors, copies of catalogs, images and policies."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from schedkit.model.catalog import Entry, Layer, Listed, Needs, parse_catalog, stack
from schedkit.model.images import manifests
from schedkit.model.images.configs import parse_config, platform_of
from schedkit.model.images.elf import Program
from schedkit.model.images.references import InvalidReference, Platform, parse_reference
from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.images.packing import Contents, Packed, pack
from schedkit.schedctl.main import VERBS
from schedkit.schedctl.problems.explanations import explain
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.source import catalog_files
from schedkit.schedctl.source.catalog_facts import facts, rows
from schedkit.schedctl.source.catalog_files import Kept, Provenance
from schedkit.schedctl.source.choose import choose_image
from schedkit.schedctl.source.destinations import layout_folder, parse_mirrors, parse_prefix, refuse_login
from schedkit.schedctl.verbs.catalog.update import as_reference, compare, refuse_older
from schedkit.schedctl.verbs.images.elf_libraries import collect
from schedkit.schedctl.verbs.images.mirror import destination

ROOT = Path(__file__).parents[4]
SCHEMAS = ROOT / "docs/schedctl/schemas"
NOTE = Provenance(source="somewhere", sha256="0" * 64, updated="2026-01-01T00:00:00+00:00")
ENTRIES = parse_catalog(b'{"x": {"imageURI": "registry.example/x:1@sha256:' + b"0" * 64 + b'"}}')


# Schemas


def test_every_answer_has_a_schema_that_requires_what_is_always_there() -> None:
    groups = {"catalog": ("show", "update", "publish"), "trust": ("show", "update")}
    verbs = [f"{verb}-{inner}" for verb, inners in groups.items() for inner in inners]
    without_answer = {"logs", "completion"}  # they pass on what a scheduler wrote, and a script

    assert {file.stem for file in SCHEMAS.glob("*.json")} == {
        *verbs,
        *(VERBS.keys() - groups.keys() - without_answer),
    }
    assert all(
        _properties(file)["schema_version"] == {"type": "string", "default": "1"}
        for file in SCHEMAS.iterdir()
        if file.stem != "status"  # a plain mapping, whose fields have no defaults
    )
    assert _properties(SCHEMAS / "status.json")["schema_version"] == {"type": "string"}


def _properties(file: Path) -> dict[str, object]:
    schema = json.loads(file.read_text())
    kind = schema["$ref"].rpartition("/")[2]
    return dict(schema["$defs"][kind]["properties"])


def test_the_schema_of_the_catalog_requires_nothing_but_an_image() -> None:
    schema = json.loads((ROOT / "catalog/schema.json").read_text())

    assert schema["$defs"]["Entry"]["required"] == ["imageURI"]
    assert schema["$defs"]["Entry"]["additionalProperties"] is False


# Places


def test_a_layout_is_a_folder_and_everything_else_a_registry() -> None:
    assert layout_folder("oci:some/where") == Path("some/where")
    assert layout_folder("registry.example/oci:1") is None


@pytest.mark.parametrize(
    ("image", "to", "copy"),
    [
        ("ghcr.io/a/b:1", "registry.example", "registry.example/a/b:1"),
        ("ghcr.io/a/b", "registry.example:5000/copies/", "registry.example:5000/copies/a/b:latest"),
        (f"ghcr.io/a/b@sha256:{'0' * 64}", "registry.example", "registry.example/a/b"),
        ("ghcr.io/a/b:1", "oci:stick", "ghcr.io/a/b:1"),
        ("ghcr.io/a/b", "oci:stick", "ghcr.io/a/b:latest"),
    ],
)
def test_a_copy_keeps_its_path_in_a_registry_and_its_name_in_a_layout(image: str, to: str, copy: str) -> None:
    assert str(destination(parse_reference(image), to)) == copy


@pytest.mark.parametrize("place", ["example", "a b", "", "oci", "https://registry.example"])
def test_a_place_without_a_registry_is_refused_with_what_to_write(place: str) -> None:
    with pytest.raises(Problem) as problem:
        parse_prefix(place)

    assert "registry.example" in problem.value.remedy


def test_mirrors_of_one_origin_keep_their_order() -> None:
    words = ["ghcr.io=one.example", "docker.io=hub.example/x/", "ghcr.io=two.example/ghcr"]

    assert parse_mirrors(words) == {
        "ghcr.io": ("one.example", "two.example/ghcr"),
        "docker.io": ("hub.example/x",),
    }


@pytest.mark.parametrize("name", ["index.docker.io", "registry.hub.docker.com", "Docker.io:443"])
def test_a_mirror_of_dockers_registry_is_one_by_each_of_its_names(name: str) -> None:
    assert parse_mirrors([f"{name}/ada=hub.example"]) == {"docker.io/ada": ("hub.example",)}


def test_a_mirror_without_an_origin_is_refused() -> None:
    with pytest.raises(Problem, match=r"'registry\.example' is not a mirror"):
        parse_mirrors(["registry.example"])


def test_a_version_takes_the_place_of_tag_and_digest_of_the_catalog() -> None:
    catalog = stack([Layer("test", ENTRIES)])

    assert str(choose_image(catalog, "x", version="2").reference) == "registry.example/x:2"
    assert choose_image(catalog, "x").reference.digest is not None


@pytest.mark.parametrize("version", ["../y", "1?n=1", "1@sha256:0", "-1"])
def test_a_version_that_is_no_tag_is_refused(version: str) -> None:
    catalog = stack((Layer("a", ENTRIES),))

    with pytest.raises(InvalidReference, match="is not a tag"):
        choose_image(catalog, "x", version=version)


def test_a_crowd_of_bad_signatures_is_not_told_one_by_one() -> None:
    others = [Refusal(Step.FORMAT, f"bad {number}") for number in range(64)]

    said = explain(Refusal(Step.SIGNER, "a stranger", others=others))

    assert said is not None
    assert str(said).count("another signature") == 5
    assert "and 59 more" in str(said)


# The updated copy of the catalog


def test_the_copy_lies_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")

    assert catalog_files.kept({"XDG_DATA_HOME": "/data"}).file == Path("/data/schedkit/catalog.json")
    assert catalog_files.kept({"XDG_DATA_HOME": "relative"}).file.is_relative_to("/somewhere/.local/share")


def test_a_copy_is_read_back_with_where_it_came_from(tmp_path: Path) -> None:
    copy = Kept(tmp_path / "new")

    copy.replace(ENTRIES, NOTE)

    layer = catalog_files.updated(copy)
    assert layer is not None
    assert (layer.entries, copy.provenance()) == (ENTRIES, NOTE)


def test_without_a_copy_there_is_no_layer_and_no_provenance(tmp_path: Path) -> None:
    assert catalog_files.updated(Kept(tmp_path)) is None
    assert Kept(tmp_path).provenance() is None


@pytest.mark.parametrize("spoiled", ["catalog.json", "", ".."], ids=["file", "folder", "folder above"])
def test_nobody_takes_names_of_images_from_where_others_can_write(spoiled: str, tmp_path: Path) -> None:
    copy = Kept(tmp_path / "above/kept")
    copy.replace(ENTRIES, NOTE)
    (copy.folder / spoiled).resolve().chmod(0o777)

    with pytest.raises(Problem) as problem:
        catalog_files.updated(copy)

    assert "can be written to by other users" in problem.value.why
    assert problem.value.remedy
    assert copy.provenance() is None or spoiled == "catalog.json"


def test_a_copy_is_not_kept_where_others_can_write_and_it_is_said_where_else(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)

    with pytest.raises(Problem, match="cannot be kept") as problem:
        Kept(tmp_path / "open").replace(ENTRIES, NOTE)

    assert "XDG_DATA_HOME" in problem.value.remedy


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Needs(), "not known"),
        (Needs(kernel_options=()), "no further option in the kernel's config"),
        (Needs(kernel_options=("KALLSYMS_ALL",)), "a kernel with CONFIG_KALLSYMS_ALL"),
        (Needs(capabilities=()), "no capabilities"),
        (Needs(capabilities=("BPF",)), "capabilities BPF"),
    ],
)
def test_what_a_scheduler_needs_is_told_in_whole_words(needs: Needs, words: str) -> None:
    known = facts(Listed("scx_x", Entry("registry.example/x:1", needs=needs), "a test"))

    assert dict(rows(known))["Needs"] == words


def test_a_copy_is_neither_read_nor_kept_through_a_link(tmp_path: Path) -> None:
    Kept(tmp_path / "real/schedkit").replace(ENTRIES, NOTE)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    copy = catalog_files.kept({"XDG_DATA_HOME": str(tmp_path / "link")})

    with pytest.raises(Problem, match="not trusted"):
        catalog_files.updated(copy)
    with pytest.raises(OSError, match="link"):
        copy.replace({}, NOTE)

    assert Kept(tmp_path / "real/schedkit").entries() == ENTRIES


def test_a_damaged_copy_does_not_stop_what_would_replace_it(tmp_path: Path) -> None:
    copy = Kept(tmp_path / "new")
    copy.replace(ENTRIES, NOTE)
    copy.file.write_bytes(b"{")

    assert copy.entries() == {}


@pytest.mark.parametrize(
    ("time", "refused"),
    [("2026-02-01T00:00:00+00:00", False), ("2025-12-01T00:00:00+00:00", True), (None, True)],
)
def test_a_catalog_whose_time_is_older_or_unknown_does_not_replace_a_dated_one(
    time: str | None, refused: bool
) -> None:
    kept = Provenance(source="s", sha256="0" * 64, updated="", signed="2026-01-01T00:00:00+00:00")
    undated = Provenance(source="s", sha256="0" * 64, updated="")

    refuse_older(time, undated)
    refuse_older(time, None)
    if not refused:
        refuse_older(time, kept)
        return
    with pytest.raises(Problem, match="is older, or may be older, than the catalog of the last update"):
        refuse_older(time, kept)


@pytest.mark.parametrize("url", ["https://me:secret@r.test/c.json", "https://token@r.test"])
def test_a_url_with_a_login_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Problem) as problem:
        refuse_login(url)

    assert "secret" not in f"{problem.value} {problem.value.why}"
    refuse_login("https://r.test/c.json?at=a@b")


def test_an_update_says_what_it_changed() -> None:
    before = parse_catalog(b'{"a": {"imageURI": "r.io/a"}, "b": {"imageURI": "r.io/b"}}')
    now = parse_catalog(b'{"b": {"imageURI": "r.io/b:2"}, "c": {"imageURI": "r.io/c"}}')

    updated = compare(before, now, NOTE, Path("f"))

    assert (updated.added, updated.changed, updated.removed) == (("c",), ("b",), ("a",))


def test_a_source_is_an_image_unless_it_is_a_url_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "catalog.json").touch()

    files = [as_reference(each) for each in ("https://a.example/b", "./missing.json", "/x", "catalog.json")]
    assert files == [None] * 4
    assert as_reference("ghcr.io/schedkit/catalog:1") is not None


# Images that are made here


def contents(architecture: str = "amd64", **changes: object) -> Contents:
    platform = Platform("linux", architecture)
    usual = {"name": "scx_x", "program": b"program", "platform": platform, "labels": {"b": "1", "a": "2"}}
    return Contents(**(usual | changes))  # type: ignore[arg-type]  # a test's own words


def layer(packed: Packed) -> dict[str, tarfile.TarInfo]:
    [blob] = [each for each in packed.blobs if each.descriptor.media_type.endswith("gzip")]
    with tarfile.open(fileobj=BytesIO(blob.data)) as archive:
        return {entry.name: entry for entry in archive}


def test_one_program_becomes_a_manifest_and_several_an_index_that_is_sorted() -> None:
    one, two = pack([contents()]), pack([contents("arm64"), contents("amd64")])

    assert one.top.descriptor.media_type == manifests.IMAGE_MANIFEST
    assert two.platforms == ("linux/amd64", "linux/arm64")
    index = manifests.parse_index(two.top.data)
    assert [str(entry.platform) for entry in index.manifests] == ["linux/amd64", "linux/arm64"]
    assert [entry.digest for entry in index.manifests] == [
        each.descriptor.digest for each in two.manifests[:-1]
    ]


def test_an_image_says_nothing_about_the_machine_and_the_time_it_was_made() -> None:
    entries = layer(pack([contents()])).values()

    assert {(entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {
        (0, 0, 0, "", "")
    }
    assert pack([contents()]) == pack([contents(labels={"a": "2", "b": "1"})])


def test_a_program_lies_where_its_image_starts_it_and_can_be_executed() -> None:
    packed = pack([contents()])

    config = parse_config(packed.blobs[0].data)
    assert config.config.entrypoint == ("/usr/bin/scx_x",)
    assert layer(packed)["usr/bin/scx_x"].mode & 0o111 == 0o111
    assert config.labels == {"a": "2", "b": "1"}


def test_libraries_and_interpreter_lie_where_they_are_looked_for() -> None:
    packed = pack([contents(libraries={"libx.so.1": b"x"}, interpreter=("/lib64/ld.so.2", b"ld"))])

    assert {"usr/lib/libx.so.1", "lib64", "lib64/ld.so.2"} <= layer(packed).keys()
    assert "LD_LIBRARY_PATH=/usr/lib" in json.loads(packed.blobs[0].data)["config"]["Env"]


def test_a_library_that_is_missing_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    program = Program(Platform("linux", "amd64"), "/lib64/ld.so", ("libmissing.so.1",))

    with pytest.raises(Problem, match=r"libmissing\.so\.1 for linux/amd64 was not found") as problem:
        collect(Path("scx_x"), program, [tmp_path])
    assert str(tmp_path) in problem.value.why


@pytest.mark.parametrize("interpreter", ["/../../etc/x", "lib/ld.so", "/" + "x" * 100])
def test_an_interpreter_that_would_lie_elsewhere_is_refused(interpreter: str, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"the interpreter .* is not packaged") as refused:
        collect(Path("scx_x"), Program(Platform("linux", "amd64"), interpreter, ()), [tmp_path])
    assert "link the program statically" in refused.value.remedy


def test_a_library_whose_name_no_archive_holds_is_refused(tmp_path: Path) -> None:
    program = Program(Platform("linux", "amd64"), "/lib64/ld.so", ("x" * 101,))

    with pytest.raises(Problem, match="is not packaged") as refused:
        collect(Path("scx_x"), program, [tmp_path])
    assert "by a short name" in refused.value.remedy


def test_a_library_that_is_named_by_a_path_is_refused(tmp_path: Path) -> None:
    program = Program(Platform("linux", "amd64"), "/lib64/ld.so", ("/etc/passwd",))

    with pytest.raises(Problem, match="the library '/etc/passwd' is not packaged"):
        collect(Path("scx_x"), program, [tmp_path])


@pytest.mark.parametrize(("machine", "platform"), [("x86_64", "linux/amd64"), ("aarch64", "linux/arm64")])
def test_a_machine_is_called_as_images_call_it(machine: str, platform: str) -> None:
    assert str(platform_of(machine)) == platform
