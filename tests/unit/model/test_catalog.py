"""The catalog: what is read, what is refused, whose entry counts, and which name was meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.model.catalog import (
    MAX_BYTES,
    MAX_ENTRIES,
    Entry,
    InvalidCatalog,
    Layer,
    Measured,
    UnknownName,
    choose,
    nearest,
    parse_catalog,
    render_catalog,
    stack,
)
from schedkit.model.images.tags import is_evidence, sort_versions

ROOT = Path(__file__).parents[3]
SHIPPED = parse_catalog((ROOT / "src/schedkit/catalog.json").read_bytes())
# all that plumbing publishes
UPSTREAM = [
    "gthulhu",
    "scx_beerland",
    "scx_bpfland",
    "scx_cosmos",
    "scx_flash",
    "scx_flow",
    "scx_lavd",
    "scx_mitosis",
    "scx_p2dq",
    "scx_pandemonium",
    "scx_rustland",
    "scx_rusty",
    "scx_test",
    "scx_tickless",
]
PLUMBING = b'{"scx_rusty": {"imageURI": "ghcr.io/schedkit/scx_rusty"}, "x": {"imageURI": "ghcr.io/x/x:1.0"}}'


def catalog(**entry: object) -> bytes:
    return json.dumps({"scx_x": {"imageURI": "ghcr.io/schedkit/scx_x", **entry}}).encode()


# What is shipped


def test_every_upstream_name_is_in_the_shipped_catalog() -> None:
    assert list(SHIPPED) == UPSTREAM


def test_a_reader_of_plumbings_manifest_can_read_the_shipped_catalog() -> None:
    """It knows nothing but names with an imageURI: there is no other key at the top."""
    document = json.loads((ROOT / "src/schedkit/catalog.json").read_bytes())

    assert {name: entry["imageURI"] for name, entry in document.items()} == {
        name: f"ghcr.io/schedkit/{name}" for name in UPSTREAM
    }


def test_the_shipped_catalog_is_written_as_we_write_catalogs() -> None:
    assert render_catalog(SHIPPED) == (ROOT / "src/schedkit/catalog.json").read_bytes()


def test_every_shipped_entry_says_where_its_facts_come_from_and_whether_they_were_measured() -> None:
    measured = {name for name, entry in SHIPPED.items() if "measured with version" in entry.sources[-1]}

    assert measured == {name for name, entry in SHIPPED.items() if isinstance(entry.measured, Measured)}
    assert [name for name in set(SHIPPED) - measured if SHIPPED[name].measured is not False] == []


def test_whether_was_measured_may_still_be_said_with_one_word() -> None:
    """As catalogs did before they could say how."""
    assert parse_catalog(catalog(measured=True))["scx_x"].measured is True


@pytest.mark.parametrize(
    ("field", "word"),
    [
        ("min_kernel", "kernel:"),
        ("architectures", "architectures:"),
        ("presets", "presets:"),
        ("needs", "needs:"),
        ("description", "description:"),
        ("watchdog_seconds", "watchdog"),
        ("cpu_contract", "CPU contract:"),
    ],
)
def test_no_shipped_fact_is_without_a_source(field: str, word: str) -> None:
    told = {name: " ".join(entry.sources) for name, entry in SHIPPED.items()}

    assert [name for name, entry in SHIPPED.items() if getattr(entry, field) and word not in told[name]] == []


def test_the_names_that_the_kernel_uses_differ_from_the_images_where_they_do() -> None:
    assert (SHIPPED["gthulhu"].ops_name, SHIPPED["scx_flow"].ops_name) == ("goland", "scx_flow")


# What is read, and what is refused


def test_plumbings_manifest_is_a_catalog() -> None:
    assert parse_catalog(PLUMBING) == {
        "scx_rusty": Entry("ghcr.io/schedkit/scx_rusty"),
        "x": Entry("ghcr.io/x/x:1.0"),
    }


def test_what_was_written_is_read_back() -> None:
    assert parse_catalog(render_catalog(SHIPPED)) == SHIPPED


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(b"[]", "JSON, but not an object", id="another shape"),
        pytest.param(b"{", "is not JSON: Expecting", id="half a text"),
        pytest.param(b"\xff", "is not JSON: 'utf-8'", id="bytes that are no text"),
        pytest.param(b"[" * 100_000, "nested more than 64 levels", id="a staircase"),
        pytest.param(
            b'{"a": {"imageURI": "a/b"}, "a": {"imageURI": "a/c"}}', "names 'a' twice", id="a name twice"
        ),
        pytest.param(
            b'{"a": {"imageURI": "a/b", "imageURI": "a/c"}}', "names 'imageURI' twice", id="a field twice"
        ),
        pytest.param(b'{"a": {}}', "a: object missing required field `imageURI`", id="no image"),
        pytest.param(b'{"a": {"imageURI": "A B"}}', "a: expected `str` matching regex", id="no reference"),
        pytest.param(b'{"a": 3}', "a: expected `object`, got `int`", id="no object"),
        pytest.param(b'{"../a": {"imageURI": "a/b"}}', "'../a' is not a valid name", id="a path as a name"),
        pytest.param(
            b'{"a\\n": {"imageURI": "a/b"}}', r"'a\n' is not a valid name", id="a name with a line break"
        ),
        pytest.param(catalog(descripton="x"), "did you mean 'description'?", id="a mistyped field"),
        pytest.param(
            catalog(needs={"hostPid": True}), "did you mean 'hostPID'?", id="a mistyped field inside"
        ),
        pytest.param(catalog(presets={"fast": []}), "invalid enum value 'fast'", id="an unknown preset"),
        pytest.param(catalog(watchdogSeconds=31), "<= 30", id="a watchdog that the kernel refuses"),
        pytest.param(catalog(documentation="javascript:x"), "matching regex", id="a link that is none"),
        pytest.param(catalog(description="\x1b[2J"), "cannot be printed", id="a command to the terminal"),
        pytest.param(catalog(description="a\u202eb"), "cannot be printed", id="text that runs backwards"),
        pytest.param(
            catalog(presets={"server": ["a\0b"]}), "cannot be printed", id="a byte that ends arguments"
        ),
        pytest.param(catalog(presets={"server": ["-x"] * 65}), "length <= 64", id="too many flags"),
        pytest.param(b" " * (MAX_BYTES + 1), f"larger than {MAX_BYTES} bytes", id="too large"),
        pytest.param(
            json.dumps({f"s{n}": {"imageURI": "a/b"} for n in range(MAX_ENTRIES + 1)}).encode(),
            f"more than {MAX_ENTRIES} schedulers",
            id="too many",
        ),
    ],
)
def test_a_catalog_is_refused_with_the_reason(text: bytes, complaint: str) -> None:
    with pytest.raises(InvalidCatalog) as refusal:
        parse_catalog(text)

    assert complaint in str(refusal.value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_fields = st.sampled_from(["imageURI", "description", "presets", "needs", "cpuContract", "sources", "x"])
_texts = (
    st.binary(max_size=64)
    | _json.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(_fields, _json).map(lambda entry: json.dumps({"a": entry}).encode())
)


@given(_texts)
def test_whatever_the_text_it_is_a_catalog_or_refused(text: bytes) -> None:
    try:
        entries = parse_catalog(text)
    except InvalidCatalog:
        return

    assert parse_catalog(render_catalog(entries)) == entries


# Whose entry counts


def test_a_later_layer_replaces_whole_entries_and_leaves_the_others() -> None:
    lower = Layer("lower", parse_catalog(catalog(description="old", minKernel="6.12")) | SHIPPED)
    upper = Layer("upper", parse_catalog(catalog(description="new")))

    found = stack([lower, upper])

    assert (found["scx_x"].origin, found["scx_x"].entry.description) == ("upper", "new")
    assert found["scx_x"].entry.min_kernel is None
    assert found["scx_rusty"].origin == "lower"
    assert list(found) == sorted(found)


# Which name was meant

CATALOG = stack([Layer("shipped", SHIPPED)])


def test_a_name_is_found_and_an_image_is_none() -> None:
    found = choose(CATALOG, "scx_rusty")

    assert found is not None
    assert found.entry == SHIPPED["scx_rusty"]
    assert choose(CATALOG, "localhost:5000/scx_rusty") is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("rusty", ["scx_rusty"]),
        ("scx_rusti", ["scx_rusty", "scx_rustland"]),
        ("SCX_LAVD", ["scx_lavd", "scx_bpfland"]),
        ("bfpland", ["scx_bpfland"]),
        ("gthulu", ["gthulhu"]),
        ("kubernetes", []),
    ],
)
def test_the_nearest_names_are_at_most_two_with_or_without_their_prefix(typed: str, meant: list[str]) -> None:
    assert nearest(typed, SHIPPED) == meant


def test_an_unknown_name_is_told_the_nearest_and_where_to_look() -> None:
    with pytest.raises(
        UnknownName, match=r"^no scheduler is called 'rusti'\. Did you mean 'scx_rusty'\?.*list"
    ):
        choose(CATALOG, "rusti")


# Tags


def test_versions_are_sorted_as_versions_and_other_tags_come_last() -> None:
    tags = [
        "latest",
        "1.0.10",
        "v1.0.9",
        "1.0.9-rc2",
        "1.0.9-rc10",
        "1.0.9-rc.2",
        "edge",
        "1.1",
        "0.9",
        "1.0.9-rc.10",
    ]

    assert sort_versions(tags) == [
        "0.9",
        "1.0.9-rc.2",
        "1.0.9-rc.10",
        "1.0.9-rc10",
        "1.0.9-rc2",
        "v1.0.9",
        "1.0.10",
        "1.1",
        "edge",
        "latest",
    ]


def test_a_number_longer_than_any_counter_is_a_word() -> None:
    endless = f"1.0-{'9' * 5000}"

    assert sort_versions([endless, "1.0", "1.0-2"]) == ["1.0-2", endless, "1.0"]


@given(
    st.lists(st.from_regex(r"v?[0-9]{1,3}(\.[0-9]{1,3}){0,3}(-[a-z0-9.]{1,4})?|[a-z]{1,6}", fullmatch=True))
)
def test_sorting_keeps_every_tag_and_does_not_depend_on_the_order(tags: list[str]) -> None:
    assert sort_versions(tags) == sort_versions(tags[::-1])
    assert sorted(sort_versions(tags)) == sorted(tags)


@pytest.mark.parametrize(
    ("tag", "answer"),
    [(f"sha256-{'a' * 64}.sig", True), (f"sha256-{'a' * 64}", True), ("sha256-abc", False), ("1.0.0", False)],
)
def test_what_signing_tools_keep_is_told_from_versions(tag: str, answer: bool) -> None:
    assert is_evidence(tag) is answer
