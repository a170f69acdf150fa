"""What images are called, and what they are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.base import effort
from schedkit.model.images import grammar, manifests, strictjson
from schedkit.model.images.manifests import Index, NoSuchPlatform
from schedkit.model.images.references import (
    Descriptor,
    Digest,
    InvalidReference,
    Platform,
    Reference,
    Repository,
    parse_reference,
    parse_repository,
)
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.errors import Refused, Unreachable

SHA = "sha256:" + "0123456789abcdef" * 4
DIGEST = Digest(SHA)


@pytest.mark.parametrize(
    ("text", "registry", "path", "tag", "digest"),
    [
        pytest.param(
            "scx_rusty", "docker.io", "library/scx_rusty", None, None, id="a short name is Docker's"
        ),
        pytest.param(
            "schedkit/scx_rusty:v1", "docker.io", "schedkit/scx_rusty", "v1", None, id="so is one of two"
        ),
        pytest.param("index.docker.io/a/b", "docker.io", "a/b", None, None, id="Docker's other name"),
        pytest.param("registry-1.docker.io/a", "docker.io", "library/a", None, None, id="and its host"),
        pytest.param(
            "Registry.Hub.Docker.com/a/b", "docker.io", "a/b", None, None, id="and the host of its pages"
        ),
        pytest.param("GHCR.io:443/a", "ghcr.io", "a", None, None, id="one spelling per host"),
        pytest.param("host.test:80/a", "host.test:80", "a", None, None, id="another port is another place"),
        pytest.param(
            "ghcr.io/schedkit/scx_rusty", "ghcr.io", "schedkit/scx_rusty", None, None, id="a registry"
        ),
        pytest.param("ghcr.io/a:v1", "ghcr.io", "a", "v1", None, id="a tag"),
        pytest.param("localhost/a", "localhost", "a", None, None, id="localhost needs no dot"),
        pytest.param("host:5000/a", "host:5000", "a", None, None, id="a port is no tag"),
        pytest.param("host:5000/a:b", "host:5000", "a", "b", None, id="a port and a tag"),
        pytest.param("[::1]:5000/a", "[::1]:5000", "a", None, None, id="an IPv6 address"),
        pytest.param(f"ghcr.io/a@{SHA}", "ghcr.io", "a", None, SHA, id="a digest"),
        pytest.param(f"ghcr.io/a:v1@{SHA}", "ghcr.io", "a", "v1", SHA, id="a tag and a digest"),
    ],
)
def test_a_reference_is_read_as_container_runtimes_do(
    text: str, registry: str, path: str, tag: str | None, digest: str | None
) -> None:
    expected = Reference(Repository(registry, path), tag, Digest(digest) if digest else None)

    assert parse_reference(text) == expected
    assert parse_reference(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "write registry/path:tag", id="nothing"),
        pytest.param("https://ghcr.io/a", "remove 'https://'", id="a scheme"),
        pytest.param("ghcr.io/A", "in lower case", id="capitals"),
        pytest.param("ghcr.io/a:", "no valid tag", id="an empty tag"),
        pytest.param("ghcr.io/a:-b", "no valid tag", id="a tag that begins with a dash"),
        pytest.param(f"ghcr.io/a:{'t' * 129}", "at most 128", id="a long tag"),
        pytest.param("ghcr.io/a:b:c", "no valid tag", id="two tags"),
        pytest.param("ghcr.io/a@sha256:123", "64 digits", id="a short digest"),
        pytest.param(f"ghcr.io/a@{SHA.upper()}", "64 digits", id="a digest in capitals"),
        pytest.param(
            f"ghcr.io/a@sha512:{'0' * 128}", "not a digest: write sha256:", id="another kind of digest"
        ),
        pytest.param(f"ghcr.io/a@{SHA}@{SHA}", "64 digits", id="two digests"),
        pytest.param(f"ghcr.io/a@{SHA}\n", "64 digits", id="a line break"),
        pytest.param("ghcr.io/../a", "write registry/path:tag", id="a path that leads up"),
        pytest.param(f"ghcr.io/{'a' * 256}", "more than 255 characters", id="a long path"),
        pytest.param(f"ghcr.io/{'a' * 100_000}", "write registry/path:tag", id="a very long path"),
        pytest.param("ghcr.io/a b", "write registry/path:tag", id="a space"),
        pytest.param("[1]/a:b", "no IPv6 address", id="brackets around a digit"),
        pytest.param("[::1::]:5000/a", "no IPv6 address", id="brackets around half an address"),
    ],
)
def test_what_names_no_image_is_told_so(text: str, sentence: str) -> None:
    with pytest.raises(InvalidReference, match=re.escape(sentence)) as refusal:
        parse_reference(text)

    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("tag", ["", "-x", "../x", "v1?n=1", "v1@sha256:0", "t" * 129, "v1\n"])
def test_nothing_is_a_tag_that_would_be_read_as_something_else(tag: str) -> None:
    with pytest.raises(InvalidReference, match="is not a tag"):
        Reference(Repository("ghcr.io", "a"), tag=tag)


_PARTS = st.lists(
    st.sampled_from(["a", "a-b", "a--b", "a.b", "a_b", "a__b", "0", "localhost"]), min_size=1, max_size=4
)
_REFERENCES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "localhost/", "a:1/", "a.B-c:65535/", "[::1]/", "127.0.0.1:5000/", "docker.io/"]),
    _PARTS.map("/".join),
    st.just("") | st.text("aZ0_.-", min_size=1, max_size=9).map(lambda tag: f":t{tag}"),
    st.sampled_from(["", f"@{SHA}"]),
)


@given(_REFERENCES.filter(lambda text: re.fullmatch(grammar.IMAGE, text) is not None))
def test_whatever_a_schedext_may_name_can_be_read(text: str) -> None:
    reference = parse_reference(text)

    assert parse_reference(str(reference)) == reference


@given(st.text("aB0.:/-_[]", max_size=12) | _REFERENCES.map(lambda text: text.partition("@")[0]))
def test_what_is_a_repository_is_said_by_the_grammar_unless_it_names_an_address(text: str) -> None:
    try:
        parse_repository(text)
    except InvalidReference:
        assert re.fullmatch(grammar.REPOSITORY, text) is None or text.startswith("[")
    else:
        assert re.fullmatch(grammar.REPOSITORY, text) is not None


def test_a_digest_is_binding_whatever_tag_stands_beside_it() -> None:
    assert parse_reference(f"a:v1@{SHA}").identifier == SHA
    assert parse_reference("a:v1").identifier == "v1"
    assert parse_reference("a").identifier == "latest"
    assert str(parse_reference("ghcr.io/a:v1").pinned(DIGEST)) == f"ghcr.io/a:v1@{SHA}"


def _manifest(**fields: object) -> bytes:
    config = {"mediaType": "application/x", "digest": SHA, "size": 2}
    return json.dumps({"schemaVersion": 2, "config": config, **fields}).encode()


def _index(*platforms: dict[str, str] | None) -> Index:
    entries: list[dict[str, Any]] = [
        {
            "mediaType": manifests.IMAGE_MANIFEST,
            "digest": f"sha256:{number:064}",
            "size": 1,
            "platform": platform,
        }
        for number, platform in enumerate(platforms)
    ]
    return manifests.parse_index(json.dumps({"schemaVersion": 2, "manifests": entries}).encode())


AMD64 = {"os": "linux", "architecture": "amd64"}
ARM64 = {"os": "linux", "architecture": "arm64"}
ARM64_V8 = {**ARM64, "variant": "v8"}
ARM64_V9 = {**ARM64, "variant": "v9"}
UNKNOWN = {"os": "unknown", "architecture": "unknown"}


@pytest.mark.parametrize(
    ("platforms", "wanted", "chosen"),
    [
        pytest.param([AMD64, ARM64], Platform("linux", "arm64"), 1, id="the one that fits"),
        pytest.param([None, UNKNOWN, AMD64], Platform("linux", "amd64"), 2, id="not what is no platform"),
        pytest.param([ARM64_V8], Platform("linux", "arm64"), 0, id="any variant, if none is wanted"),
        pytest.param([ARM64], Platform("linux", "arm64", "v8"), 0, id="none, if it names none"),
        pytest.param(
            [ARM64_V9, ARM64, ARM64_V8], Platform("linux", "arm64", "v8"), 2, id="best the same variant"
        ),
        pytest.param([AMD64, AMD64], Platform("linux", "amd64"), 0, id="the first of equals"),
    ],
)
def test_an_index_gives_the_manifest_of_a_platform(
    platforms: list[dict[str, str] | None], wanted: Platform, chosen: int
) -> None:
    assert manifests.select_platform(_index(*platforms), wanted).digest == f"sha256:{chosen:064}"


@pytest.mark.parametrize(
    ("platforms", "sentence"),
    [
        pytest.param(
            [AMD64, ARM64_V8], "does not exist for linux/riscv64: it offers linux/amd64, linux/arm64/v8"
        ),
        pytest.param([None], "does not exist for linux/riscv64: it names no platforms"),
        pytest.param([], "does not exist for linux/riscv64: it names no platforms"),
    ],
)
def test_a_platform_that_is_missing_is_told_with_what_there_is(
    platforms: list[dict[str, str] | None], sentence: str
) -> None:
    with pytest.raises(NoSuchPlatform, match=sentence):
        manifests.select_platform(_index(*platforms), Platform("linux", "riscv64"))


def test_another_variant_is_not_taken_for_the_wanted_one() -> None:
    with pytest.raises(NoSuchPlatform):
        manifests.select_platform(_index(ARM64_V9), Platform("linux", "arm64", "v8"))


def test_null_is_the_same_as_left_out() -> None:
    assert manifests.parse_index(b'{"schemaVersion": 2, "manifests": null}').manifests == ()
    assert manifests.parse_manifest(_manifest(layers=None, annotations=None, subject=None)).layers == ()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(b"", "is not JSON", id="nothing"),
        pytest.param(b"[]", "not an object", id="no object"),
        pytest.param(b'{"a": 1, "a": 1}', "names 'a' twice", id="a name twice"),
        pytest.param(
            b'{"x": {"a": 1, "\\u0061": 2}}', "names 'a' twice", id="a name twice, written differently"
        ),
        pytest.param(b'{"a": NaN}', "NaN", id="not a number"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "is not JSON", id="an endless number"),
        pytest.param(b'{"a": "\\ud800"}', "is not JSON", id="half a character"),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', "is not JSON", id="a byte order mark"),
        pytest.param(b'{"a": 1} {}', "is not JSON", id="something after the end"),
        pytest.param(b'{"a": ' * 65 + b"1" + b"}" * 65, "nested more than 64 levels", id="deep objects"),
        pytest.param(b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", "nested more than 64 levels", id="deep lists"),
        pytest.param(b'{"a": [' + b"1," * 100_001 + b"1]}", "more than 100000 values", id="many values"),
        pytest.param(b'"' * 100_001, "is not JSON", id="many quotes"),
        pytest.param(b'{"' + b"\\" * 100_000, "is not JSON", id="many backslashes"),
        pytest.param(b'{"' + b'\\"' * 100_000, "is not JSON", id="many escaped quotes"),
        pytest.param(b'{"a": "' + b'\\"' * 100_000 + b"\\", "is not JSON", id="a backslash at the very end"),
        pytest.param(
            json.dumps({str(number): 0 for number in range(30_000)}).encode()[:-1] + b', "29999": 0}',
            "names '29999' twice",
            id="a name twice among many",
        ),
    ],
)
def test_a_document_with_more_than_one_reading_is_none(data: bytes, sentence: str) -> None:
    """And at once: searching one of these from every place in it would take longer than a minute."""
    with effort.at_most(2), pytest.raises(InvalidDocument, match=f"the thing.*{sentence}"):
        strictjson.read_object(data, what="the thing")


def test_depth_is_counted_where_it_is_depth() -> None:
    flat = {"a": "[" * 1000, "b": '\\"{' * 1000, "c": [[]] * 1000}

    assert strictjson.read_object(json.dumps(flat).encode(), what="the thing") == flat


@pytest.mark.parametrize(
    ("data", "media_type", "sentence"),
    [
        pytest.param(_manifest(), manifests.IMAGE_INDEX, "has 'config'", id="a manifest served as an index"),
        pytest.param(_manifest(manifests=[]), manifests.IMAGE_MANIFEST, "has 'manifests'", id="both at once"),
        pytest.param(
            _manifest(manifests=None), manifests.IMAGE_MANIFEST, "has 'manifests'", id="even if null"
        ),
        pytest.param(_manifest(fsLayers=[]), manifests.IMAGE_MANIFEST, "has 'fsLayers'", id="the old format"),
        pytest.param(
            _manifest(mediaType=manifests.IMAGE_INDEX),
            manifests.IMAGE_MANIFEST,
            "calls itself",
            id="by its own word",
        ),
        pytest.param(
            _manifest(layers=[], Layers=[]), manifests.IMAGE_MANIFEST, "'layers' twice", id="in other letters"
        ),
        pytest.param(
            _manifest(Manifests=[]), manifests.IMAGE_MANIFEST, "has 'manifests'", id="both, in other letters"
        ),
        pytest.param(
            _manifest(MediaType=manifests.IMAGE_INDEX),
            manifests.IMAGE_MANIFEST,
            "calls itself",
            id="by its own word, in other letters",
        ),
        pytest.param(
            _manifest(config={"mediaType": "a/b", "digest": SHA, "DIGEST": SHA, "size": 1}),
            manifests.IMAGE_MANIFEST,
            "'digest' twice",
            id="in other letters, further inside",
        ),
        pytest.param(
            _manifest(config={"mediaType": "a/b\n", "digest": SHA, "size": 1}),
            manifests.IMAGE_MANIFEST,
            "mediaType",
            id="a line's end after a media type",
        ),
        pytest.param(_manifest(), "text/html", "neither", id="served as nothing known"),
        pytest.param(
            _manifest(schemaVersion=1), manifests.IMAGE_MANIFEST, "schemaVersion", id="an old version"
        ),
        pytest.param(_manifest(layers=[{}]), manifests.IMAGE_MANIFEST, "layers", id="an empty descriptor"),
        pytest.param(
            _manifest(config={"mediaType": "a/b", "digest": "sha256:1", "size": 1}),
            manifests.IMAGE_MANIFEST,
            "digest",
            id="a digest that is none",
        ),
        pytest.param(
            _manifest(config={"mediaType": "a/b", "digest": SHA, "size": -1}),
            manifests.IMAGE_MANIFEST,
            "size",
            id="a negative size",
        ),
        pytest.param(
            _manifest(config={"mediaType": "a/b\r\nX: y", "digest": SHA, "size": 1}),
            manifests.IMAGE_MANIFEST,
            "mediaType",
            id="a header in a media type",
        ),
        pytest.param(
            _manifest(layers=[{"mediaType": "a/b", "digest": SHA, "size": 1}] * 5000),
            manifests.IMAGE_MANIFEST,
            "the limit is 4096",
            id="a crowd",
        ),
    ],
)
def test_a_manifest_that_can_be_read_as_something_else_is_refused(
    data: bytes, media_type: str, sentence: str
) -> None:
    with pytest.raises(InvalidDocument, match=sentence):
        manifests.parse(data, media_type)


def test_what_is_written_can_be_read() -> None:
    subject = Descriptor("application/x", DIGEST, 7, annotations={"a": "b"})
    config = Descriptor(manifests.EMPTY_CONFIG, DIGEST, 2)

    data = manifests.render_manifest(config=config, layers=[subject], subject=subject, artifact_type="x/y")
    manifest = manifests.parse_manifest(data)

    assert (manifest.config, manifest.layers, manifest.subject) == (config, (subject,), subject)
    assert type(manifest.config.digest) is Digest
    entry = manifests.referrer_entry(Descriptor(manifests.IMAGE_MANIFEST, DIGEST, len(data)), manifest)
    assert manifests.parse_index(manifests.render_index([entry])).manifests == (entry,)
    assert entry.artifact_type == "x/y"


def test_what_strangers_write_at_length_stays_out_of_lists() -> None:
    data = manifests.render_manifest(
        config=Descriptor(manifests.EMPTY_CONFIG, DIGEST, 2),
        artifact_type="x" * 1_000_000,
        annotations={"a": "b" * 1_000_000},
    )
    descriptor = Descriptor(manifests.IMAGE_MANIFEST, DIGEST, len(data))
    claim = Descriptor("a/b", DIGEST, 1, artifact_type="x" * 1_000_000, annotations={"a": "b" * 1_000_000})

    entry = manifests.referrer_entry(descriptor, manifests.parse_manifest(data))

    assert entry == descriptor
    assert manifests.bare_entry(claim) == Descriptor("a/b", DIGEST, 1)


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([Descriptor("a/b", DIGEST, 1)] * 4097, id="many"),
        pytest.param([Descriptor("a/b", DIGEST, 1, annotations={"a": "b" * 5_000_000})], id="long"),
    ],
)
def test_no_index_is_written_that_nobody_would_read(entries: list[Descriptor]) -> None:
    with pytest.raises(InvalidDocument, match="the limit is"):
        manifests.render_index(entries)


@pytest.mark.parametrize(
    "raised",
    [
        pytest.param(lambda text: Unreachable(f"{text}. Log in"), id="of a registry"),
        pytest.param(lambda text: Refused(f"{text}. Log in"), id="of its answer"),
        pytest.param(lambda text: Refusal(Step.FORMAT, f"{text}. Log in"), id="a refusal"),
    ],
)
def test_a_message_is_short_whatever_it_quotes(raised: Callable[[str], Exception]) -> None:
    said = str(raised("x" * 10_000_000))

    assert len(said) < 600
    assert "Log in" in said


@pytest.mark.parametrize(
    "read",
    [
        lambda data: manifests.media_type_of(data, served_as="a/b"),
        lambda data: manifests.media_type_of(data, served_as=None),
        lambda data: manifests.parse(data, manifests.IMAGE_INDEX),
    ],
)
def test_a_manifest_with_an_endless_name_is_refused_in_few_words(read: Callable[[bytes], object]) -> None:
    with pytest.raises(InvalidDocument) as refused:
        read(json.dumps({"mediaType": "x" * 1_000_000}).encode())

    assert len(str(refused.value)) < 300


@given(st.binary(max_size=200) | st.text().map(lambda text: json.dumps({"mediaType": text}).encode()))
def test_nothing_but_a_refusal_comes_out_of_garbage(data: bytes) -> None:
    with pytest.raises(InvalidDocument):
        manifests.parse(data, manifests.IMAGE_MANIFEST)
