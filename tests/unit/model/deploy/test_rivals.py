"""The index of rivals: it must answer as a comparison of all with all would, and wake whom that would."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.builders.observations import NOW, schedext
from rig.cluster.nodelabels import terms
from schedkit.kube.resources import Key, key_of
from schedkit.model.api.pod_fields import (
    Affinity,
    NodeAffinity,
    NodeFieldRequirement,
    NodeLabelRequirement,
    NodeSelector,
    NodeSelectorTerm,
)
from schedkit.model.api.schedext import SchedExt
from schedkit.model.deploy.overlaps import are_disjoint, wishes_of
from schedkit.model.deploy.rivals import Rivals


def aged(name: str, age_s: int, **spec: Any) -> SchedExt:  # noqa: ANN401 - fields of a spec
    asked = schedext(name, **spec)
    created = NOW - timedelta(seconds=age_s)
    return msgspec.structs.replace(
        asked, metadata=msgspec.structs.replace(asked.metadata, creation_timestamp=created)
    )


def requiring(*wanted: Any) -> Affinity:  # noqa: ANN401 - terms
    required = NodeSelector(node_selector_terms=wanted)
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


schedexts = st.builds(
    aged,
    name=st.sampled_from("klmnop"),
    age_s=st.integers(0, 3),
    node_selector=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
    affinity=st.none() | st.lists(terms, max_size=2).map(lambda some: requiring(*some)),
    suspend=st.integers(0, 4).map(lambda number: number == 0),
)
changes = st.lists(schedexts | st.sampled_from("klmnop"), max_size=25)


def searched(mine: SchedExt, all_of_them: dict[Key, SchedExt]) -> Key | None:
    """What a comparison with everybody says."""
    by_age = sorted(
        all_of_them.values(), key=lambda each: (each.metadata.creation_timestamp or NOW, key_of(each))
    )
    return next((key_of(each) for each in by_age if meet(mine, each)), None)


def meet(one: SchedExt, other: SchedExt) -> bool:
    if key_of(one) == key_of(other) or one.spec.suspend or other.spec.suspend:
        return False
    return not are_disjoint(tuple(wishes_of(one)), tuple(wishes_of(other)))


@given(changes)
def test_the_index_answers_as_a_search_and_wakes_all_whose_answer_changed(
    history: list[SchedExt | str],
) -> None:
    rivals, there = Rivals[Key](), dict[Key, SchedExt]()
    for change in history:
        key = Key("default", change) if isinstance(change, str) else key_of(change)
        before = {each: rivals.first(each) for each in there}
        now = None if isinstance(change, str) else change
        woken = rivals.update(key, now)
        there.pop(key, None)
        if now is not None:
            there[key] = now

        after = {each: searched(mine, there) for each, mine in there.items()}

        assert {each for each in after if each != key and before[each] != after[each]} <= woken
        assert {each: rivals.first(each) for each in there} == after


def calls_of(work: Callable[[], object]) -> int:
    """How much work it is, whatever else the machine does."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(each.callcount for each in profile.getstats())


def of_the_pool(name: str) -> dict[str, Any]:
    return {"node_selector": {"pool": name}}


def of_the_node(name: str) -> dict[str, Any]:
    named = NodeFieldRequirement(key="metadata.name", operator="In", values=(name,))
    return {"affinity": requiring(NodeSelectorTerm(match_fields=(named,)))}


@pytest.mark.parametrize("alone_on", [of_the_pool, of_the_node])
def test_a_thousand_schedexts_of_their_own_nodes_are_found_to_have_no_rival_with_little_work(
    alone_on: Callable[[str], dict[str, Any]],
) -> None:
    """All with all would be half a million comparisons of several calls each."""
    rivals, named = Rivals[Key](), set[Key | None]()

    def add_all() -> None:
        for number in range(1000):
            asked = aged(f"scx-{number}", 1000 - number, **alone_on(f"n{number}"))
            rivals.update(key_of(asked), asked)
            named.add(rivals.first(key_of(asked)))

    assert calls_of(add_all) < 200_000
    assert named == {None}


def biggest(name: str, labels: list[str], operator: str) -> SchedExt:
    """As much as the CRD lets through; of `decisive` alone it depends whether a node meets it."""
    values = tuple(f"v{number}" for number in range(64))
    wanted = [NodeLabelRequirement(key=label, operator="In", values=values) for label in labels]
    fields = [
        NodeFieldRequirement(key="metadata.name", operator="NotIn", values=(f"n{number}",))
        for number in range(4)
    ]
    decisive = NodeLabelRequirement(key="decisive", operator=operator)
    term = NodeSelectorTerm(match_expressions=(*wanted, decisive), match_fields=tuple(fields))
    selector = {f"s{number}": "x" for number in range(32)}
    return aged(name, 0, node_selector=selector, affinity=requiring(*[term] * 16))


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param([f"l{number}" for number in range(15)], id="of many labels"),
        pytest.param(["l"] * 15, id="of one label, many times"),
    ],
)
def test_the_biggest_schedexts_are_compared_with_little_work(labels: list[str]) -> None:
    """Each requirement with each other one would be ten million calls, during which nothing else is done."""
    rivals = Rivals[Key]()
    one, other = biggest("one", labels, "Exists"), biggest("other", labels, "DoesNotExist")

    def compare() -> None:
        for each in (one, other):
            rivals.update(key_of(each), each)
        rivals.first(key_of(one))

    assert calls_of(compare) < 60_000
    assert rivals.first(key_of(one)) is None
    assert rivals.first(key_of(other)) is None


@pytest.mark.parametrize("decisive", ["Exists", "DoesNotExist"], ids=["a rival", "no rival"])
def test_an_answer_is_remembered_until_it_may_be_another(decisive: str) -> None:
    rivals = Rivals[Key]()
    one, other = biggest("one", ["l"], "Exists"), biggest("other", ["l"], decisive)
    for each in (one, other):
        rivals.update(key_of(each), each)
    found = rivals.first(key_of(one))

    assert calls_of(lambda: rivals.first(key_of(one))) < 10
    assert found == rivals.first(key_of(one)) == (key_of(other) if decisive == "Exists" else None)


def test_one_more_of_a_thousand_that_want_all_nodes_wakes_nobody_who_has_a_rival() -> None:
    rivals = Rivals[Key]()
    for number in range(1000):
        asked = aged(f"scx-{number:04}", 1000 - number)
        woken = rivals.update(key_of(asked), asked)
        rivals.first(key_of(asked))
        for each in woken:
            rivals.first(each)

    newest = aged("newest", 0)

    assert rivals.update(key_of(newest), newest) == set()
    assert rivals.first(key_of(newest)) == Key("default", "scx-0000")
