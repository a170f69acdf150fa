"""Resources as paths, objects in a store, and strings that are shared."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.kube.decoding import NAMELESS, codec
from schedkit.kube.resources import Described, Key, Metadata, Resource, key_of
from schedkit.kube.store import Store


class Labelled(Metadata, gc=False, rename="camel", kw_only=True):
    labels: dict[str, str] | None = None


class Inner(msgspec.Struct, gc=False):
    image: str | None = None
    parent: Inner | None = None


class Spec(msgspec.Struct, gc=False, frozen=True):
    node: str = ""
    words: list[str] | None = None
    parts: list[Inner] | None = None
    size: int | str | None = None


class Thing(msgspec.Struct, gc=False):
    metadata: Labelled | None = None
    spec: Spec | None = None


THINGS = Resource("example.com", "v1", "things", "Thing", Thing)
NODES = Resource("", "v1", "nodes", "Node", Thing, namespaced=False)


def thing(name: str, version: str, node: str = "n1") -> Thing:
    return Thing(Labelled(name=name, namespace="ns", resource_version=version), Spec(node))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (THINGS.path(), "/apis/example.com/v1/things"),
        (THINGS.path(namespace="a"), "/apis/example.com/v1/namespaces/a/things"),
        (
            THINGS.path(namespace="a", name="x", subresource="status"),
            "/apis/example.com/v1/namespaces/a/things/x/status",
        ),
        (NODES.path(name="n/../1"), "/api/v1/nodes/n%2F..%2F1"),
    ],
)
def test_where_the_api_serves_a_resource(path: str, expected: str) -> None:
    assert path == expected


def test_a_namespace_too_many_or_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="is not namespaced"):
        NODES.path(namespace="a")
    with pytest.raises(ValueError, match="is namespaced"):
        THINGS.path(name="x")


def test_an_object_without_a_name_has_no_key() -> None:
    with pytest.raises(ValueError, match=r"metadata\.name"):
        key_of(Thing(Labelled()))


def test_equal_strings_of_two_objects_are_one_in_memory_but_unique_ones_are_not_interned() -> None:
    body = {
        "metadata": {"name": "same-name", "labels": {"zone-label": "some zone"}, "uid": "u u"},
        "spec": {
            "node": "some node",
            "words": ["some word"],
            "parts": [{"image": "some image", "parent": {"image": "some image"}}],
        },
    }
    first, second = (_kept(THINGS, body) for _ in range(2))

    assert first == second
    assert first.spec is not None
    assert second.spec is not None
    assert first.metadata is not None
    assert second.metadata is not None
    assert first.spec.node is second.spec.node
    assert (first.spec.words or [""])[0] is (second.spec.words or [""])[0]
    parts = [*(first.spec.parts or []), *(second.spec.parts or [])]
    assert parts[0].image is parts[1].image
    assert parts[0].parent is not None
    assert parts[0].image is parts[0].parent.image
    assert (first.metadata.labels or {})["zone-label"] is (second.metadata.labels or {})["zone-label"]
    assert first.metadata.name is not second.metadata.name


T = TypeVar("T", bound=Described)


def _kept(resource: Resource[T], body: dict[str, object]) -> T:
    """As a store would get it."""
    listing = {"metadata": {"resourceVersion": "1"}, "items": [body]}
    (item,) = codec(resource).page(msgspec.json.encode(listing)).items
    return item


class Part(msgspec.Struct, frozen=True):
    names: tuple[str, ...] = ()


class Whole(msgspec.Struct, frozen=True):
    metadata: Metadata | None = None
    part: Part = Part()
    labels: dict[str, str] = {}


def test_equal_parts_that_never_change_are_one_and_others_are_not() -> None:
    wholes = Resource("example.com", "v1", "wholes", "Whole", Whole)
    meta = {"name": "x", "resourceVersion": "1"}
    bodies = [{"metadata": meta, "part": {"names": ["a"]}, "labels": {"b": "c"}} for _ in range(2)]
    first, second = (_kept(wholes, body) for body in bodies)

    assert first.part is second.part
    assert first.labels is not second.labels
    assert _kept(wholes, {"metadata": meta, "part": {"names": ["d"]}}).part == Part(("d",))


def test_what_is_long_is_shared_with_nobody_because_whoever_remembers_it_would_keep_it() -> None:
    wholes = Resource("example.com", "v1", "wholes", "Whole", Whole)
    body = {"metadata": {"name": "x", "resourceVersion": "1"}, "part": {"names": ["a" * 400, "b" * 400]}}
    first, second = (_kept(wholes, body) for _ in range(2))

    assert first.part == second.part
    assert first.part is not second.part
    assert first.part.names is not second.part.names


class Settings(msgspec.Struct, frozen=True):
    metadata: Metadata | None = None
    names: tuple[str, ...] = ()
    amount: int | str | None = None


def test_strings_inside_frozen_objects_and_tuples_are_shared_and_numbers_left_alone() -> None:
    settings = Resource("example.com", "v1", "settings", "Settings", Settings)
    meta = {"name": "x", "resourceVersion": "1"}
    first, second = (
        _kept(settings, {"metadata": meta, "names": ["a name"], "amount": amount}) for amount in (5, "5%")
    )

    assert first.names[0] is second.names[0]
    assert (first.amount, second.amount) == (5, "5%")


def test_an_object_without_a_name_is_left_out_of_its_list_with_a_clear_message() -> None:
    page = codec(THINGS).page(b'{"metadata":{"resourceVersion":"1"},"items":[{"spec":{}}]}')

    assert page.items == []
    assert page.misfits == {NAMELESS: "things.example.com: an object has no metadata.name"}


def test_the_index_follows_an_object_that_moves_and_goes() -> None:
    store: Store[Thing] = Store({"node": lambda each: [each.spec.node] if each.spec else []})
    store.put(thing("a", "1", "n1"))
    store.put(thing("b", "2", "n1"))
    assert [key_of(each).name for each in store.by("node", "n1")] == ["a", "b"]

    differs, old = store.put(thing("a", "3", "n2"))
    assert differs
    assert old is not None
    assert [key_of(each).name for each in store.by("node", "n1")] == ["b"]
    assert [key_of(each).name for each in store.by("node", "n2")] == ["a"]

    store.drop(Key("ns", "a"))
    assert store.by("node", "n2") == []


def test_the_same_version_again_is_no_difference() -> None:
    store: Store[Thing] = Store()
    store.put(thing("a", "1"))

    assert store.put(thing("a", "1"))[0] is False
    assert store.put(thing("a", "2"))[0] is True


CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["n1", "n2", ""])), max_size=30)


@given(CHANGES)
def test_an_index_equals_a_search_whatever_happened(changes: list[tuple[str, str]]) -> None:
    store: Store[Thing] = Store({"node": lambda each: [each.spec.node] if each.spec else []})
    for version, (name, node) in enumerate(changes):
        if node:
            store.put(thing(name, str(version), node))
        else:
            store.drop(Key("ns", name))

    for node in ("n1", "n2"):
        searched = sorted(key_of(each).name for each in store if each.spec and each.spec.node == node)
        assert [key_of(each).name for each in store.by("node", node)] == searched


def test_metadata_written_back_has_no_empty_fields() -> None:
    assert msgspec.json.encode(Metadata(name="x")) == b'{"name":"x"}'
