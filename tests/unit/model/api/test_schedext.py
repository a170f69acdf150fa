"""The API types: what they read and write, and their schema as it is generated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec import inspect

from schedkit.model.api.schedext import Condition, NodeTrouble, SchedExt, SchedExtSpec
from schedkit.model.api.schema import REQUIRED, api_name
from schedkit.model.catalog import parse_catalog
from schedkit.model.images import grammar

ROOT = Path(__file__).parents[4]
CRD = Path("config/crd/bases/sked.schedkit.io_schedexts.yaml")


# Reading


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        pytest.param("{}", SchedExtSpec(), id="an object with nothing in it"),
        pytest.param('{"spec": {}}', SchedExtSpec(), id="a spec without its required field"),
        pytest.param(
            '{"spec": {"sched": "x", "from": "the future"}, "more": 1}',
            SchedExtSpec(sched="x"),
            id="fields of a later version",
        ),
        pytest.param(
            '{"spec": {"sched": "NOT AN IMAGE"}}', SchedExtSpec(sched="NOT AN IMAGE"), id="older than a rule"
        ),
        pytest.param('{"spec": {"hostPID": true}}', SchedExtSpec(host_pid=True), id="the API's own spelling"),
    ],
)
def test_an_object_is_read_whatever_it_lacks(text: str, spec: SchedExtSpec) -> None:
    assert msgspec.json.decode(text, type=SchedExt).spec == spec


@pytest.mark.parametrize(
    ("field", "expected"),
    [("sched", "sched"), ("image_pull_policy", "imagePullPolicy"), ("host_pid", "hostPID")],
)
def test_a_field_has_the_name_that_the_api_gives_it(field: str, expected: str) -> None:
    assert api_name(field) == expected


@pytest.mark.parametrize(
    ("text", "is_image"),
    [
        ("scx_rusty", True),
        ("localhost:5000/scx_rusty:v1", True),
        ("ghcr.io/schedkit/scx_rusty@sha256:" + "0" * 64, True),
        ("ghcr.io/schedkit/scx_rusty@sha256:" + "0" * 63, False),
        ("ghcr.io/schedkit/scx_rusty@sha512:" + "0" * 128, False),
        ("ghcr.io:65536/x", False),
        ("ghcr.io:65535/x", True),
        ("Schedkit/x", False),
        ("x:" + "t" * 129, False),
    ],
)
def test_python_reads_the_grammar_as_the_api_server_does(text: str, is_image: bool) -> None:
    assert bool(re.match(grammar.IMAGE, text)) == is_image


# Writing


def types_in(info: inspect.Type) -> Iterator[inspect.StructType]:
    """Every type inside that one, and itself."""
    if isinstance(info, inspect.StructType):
        yield info
        for field in info.fields:
            yield from types_in(field.type)
    for inner in (getattr(info, "type", None), getattr(info, "item_type", None), *getattr(info, "types", ())):
        if inner is not None:
            yield from types_in(inner)


def test_a_required_field_is_always_written() -> None:
    """A field with its default is left out: of a required one it must be a value that is refused anyway."""
    writers = [
        kind for kind in types_in(inspect.type_info(SchedExt)) if kind.cls.__struct_config__.omit_defaults
    ]
    required = [
        (kind.cls.__name__, field.name, field.default, schema)
        for kind in writers
        for field in kind.fields
        if kind.cls is not SchedExt  # which is never written whole
        if (schema := getattr(field.type, "extra_json_schema", None) or {}).get(REQUIRED)
    ]

    assert len(required) > 10
    assert [each for each in required if not is_refused(*each[2:])] == []


def is_refused(default: object, schema: dict[str, Any]) -> bool:
    """Whether the API server refuses that value; None it never sees."""
    limits = ("enum", "minItems", "minimum", "x-kubernetes-validations")
    return default is None or (default in ("", (), 0) and any(schema.get(limit) for limit in limits))


def test_what_users_are_told_is_written_whole() -> None:
    assert json.loads(msgspec.json.encode(NodeTrouble())) == {"name": "", "reason": "", "message": ""}
    assert json.loads(msgspec.json.encode(Condition()))["status"] == "Unknown"


# What is generated


@pytest.fixture(scope="module")
def properties() -> dict[str, Any]:
    """Every part of the CRD's schema, by its path."""
    crd = yaml.safe_load((ROOT / CRD).read_text())
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    return {path: part for name in ("spec", "status") for path, part in parts(name, schema[name])}


def parts(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from parts(f"{path}.{name}", part)
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from parts(f"{path}[]", schema[word])


def test_every_field_is_described(properties: dict[str, Any]) -> None:
    named = {path: part for path, part in properties.items() if not path.endswith("[]")}

    assert [path for path, part in named.items() if not part.get("description", "").endswith(".")] == []


@pytest.mark.parametrize(
    ("is_such", "limit"),
    [
        pytest.param(lambda part: "items" in part, "maxItems", id="lists"),
        pytest.param(lambda part: "additionalProperties" in part, "maxProperties", id="maps"),
        pytest.param(
            lambda part: part.get("type") == "string" and not {"enum", "format"} & part.keys(),
            "maxLength",
            id="strings",
        ),
    ],
)
def test_nothing_grows_without_limit(
    properties: dict[str, Any], is_such: Callable[[dict[str, Any]], bool], limit: str
) -> None:
    such = {path: part for path, part in properties.items() if is_such(part)}

    assert such
    assert [path for path, part in such.items() if limit not in part] == []


def test_every_rule_says_on_one_line_what_is_wrong(properties: dict[str, Any]) -> None:
    rules = [rule for part in properties.values() for rule in part.get("x-kubernetes-validations", [])]

    assert len(rules) > 20
    assert [rule for rule in rules if len(rule["message"]) < 20 or "\n" in rule["message"]] == []


def test_the_sample_runs_an_image_of_the_catalog() -> None:
    sample = yaml.safe_load((ROOT / "config/samples/sked_v1_schedext.yaml").read_text())
    catalog = parse_catalog((ROOT / "src/schedkit/catalog.json").read_bytes())

    assert sample == {
        "apiVersion": "sked.schedkit.io/v1",
        "kind": "SchedExt",
        "metadata": {"name": "scx-rusty", "namespace": "default"},
        "spec": {"sched": f"{catalog['scx_rusty'].image_uri}:latest"},
    }
