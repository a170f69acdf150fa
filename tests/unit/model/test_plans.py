"""What is done about what is seen; and that it is done once."""

from __future__ import annotations

import itertools
from dataclasses import replace

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rig.builders import schedext_specs
from rig.builders.observations import (
    DAEMON_SET_UID,
    ago,
    daemon_set,
    observation,
    pod,
    running,
    schedext,
    through_json,
    waiting,
)
from rig.builders.plans import carried_out, plan, served
from rig.cluster import nodelabels
from schedkit.model.api.daemonset import DaemonSet, OwnerReference
from schedkit.model.api.pod_fields import (
    Affinity,
    NodeAffinity,
    NodeLabelRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Resources,
)
from schedkit.model.api.pods import Pod
from schedkit.model.api.schedext import SchedExt, SchedExtSpec
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.patch import Operation
from schedkit.model.deploy.plan import CreateDaemonSet, DeleteDaemonSet, PatchDaemonSet
from schedkit.model.deploy.render import legacy_template, render
from schedkit.model.deploy.rivals import Rivals
from schedkit.model.report.plan import RecordEvent, WriteStatus

# One thing at a time


def test_a_new_schedext_gets_its_daemon_set() -> None:
    asked = schedext()

    first, *_ = plan(observation(asked, daemon_set=None))

    assert first == CreateDaemonSet(render(asked))


def test_a_changed_image_is_a_patch_of_that_version_and_no_more() -> None:
    seen = observation(schedext(sched="x:v2"), daemon_set=daemon_set(schedext()))

    first, *_ = plan(seen)

    image = Operation("add", "/spec/template/spec/containers/0/image", "x:v2")
    assert first == PatchDaemonSet("scx", "20", (image,))
    assert first.body == (Operation("replace", "/metadata/resourceVersion", "20"), image)


def test_a_suspended_schedext_loses_its_daemon_set() -> None:
    first, *_ = plan(observation(schedext(suspend=True), pod("a", running())))

    assert first == DeleteDaemonSet("scx", DAEMON_SET_UID)


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param((), id="nobody's"),
        pytest.param((OwnerReference(kind="HelmRelease", name="x", uid="y", controller=True),), id="theirs"),
        pytest.param(
            (OwnerReference(kind="SchedExt", name="scx", uid="default-scx-uid"),),
            id="ours, but not controlled",
        ),
    ],
)
@pytest.mark.parametrize("suspend", [False, True])
def test_a_daemon_set_that_is_not_ours_is_never_written(
    owners: tuple[OwnerReference, ...], suspend: bool
) -> None:
    asked = schedext(suspend=suspend, sched="another:v2")
    seen = observation(asked, daemon_set=daemon_set(schedext(), owner_references=owners))

    assert {type(action) for action in plan(seen)} <= {WriteStatus, RecordEvent}


def test_a_daemon_set_that_is_being_deleted_is_waited_for() -> None:
    asked = schedext(sched="another:v2")
    seen = observation(asked, daemon_set=daemon_set(schedext(), deletion_timestamp=ago(1)))

    assert {type(action) for action in plan(seen)} <= {WriteStatus, RecordEvent}


def test_nothing_is_done_for_a_schedext_that_is_being_deleted() -> None:
    asked = schedext()
    meta = msgspec.structs.replace(asked.metadata, deletion_timestamp=ago(1))

    assert plan(observation(msgspec.structs.replace(asked, metadata=meta), daemon_set=None)) == ()


def legacy(asked: SchedExt) -> DaemonSet:
    served, template = daemon_set(asked), legacy_template(asked)
    assert template is not None
    return msgspec.structs.replace(served, spec=msgspec.structs.replace(served.spec, template=template))


def test_pods_of_the_go_sked_stay_until_the_spec_changes() -> None:
    kept = plan(observation(schedext(), pod("a", running()), daemon_set=legacy(schedext())))
    assert not [action for action in kept if isinstance(action, PatchDaemonSet)]

    (changed,) = [
        action
        for action in plan(observation(schedext(sched="x:v2"), daemon_set=legacy(schedext())))
        if isinstance(action, PatchDaemonSet)
    ]
    paths = {operation.path.rpartition("/")[2] for operation in changed.operations}
    assert paths == {"image", "affinity", "automountServiceAccountToken", "terminationMessagePolicy"}


# Events


def events(seen: Observation) -> list[RecordEvent]:
    return [action for action in plan(seen) if isinstance(action, RecordEvent)]


def test_each_answer_that_changes_is_told_once() -> None:
    asked = schedext()
    starting = observation(asked, pod("a", waiting("ContainerCreating")))
    known = carried_out(starting, plan(starting))
    failing = replace(known, pods=(pod("a", waiting("ErrImagePull", "not found")),))

    assert events(starting) == []
    assert events(known) == []
    assert [(event.is_warning, event.reason) for event in events(failing)] == [
        (True, "ImagePullFailed"),
        (False, "UpToDate"),
    ]
    assert events(failing)[0].message == (
        "Deployed is False: 1 of 1 node, such as a: the image cannot be pulled: not found"
    )


def test_all_questions_whose_answer_changed_are_told_with_the_same_reason() -> None:
    running_well = observation(schedext(), pod("a", running()))
    known = carried_out(running_well, plan(running_well))
    spec = msgspec.structs.replace(known.schedext.spec, suspend=True)
    suspended = replace(known, schedext=msgspec.structs.replace(known.schedext, spec=spec))

    assert [event.message for event in events(suspended)] == [
        "Deployed is False: spec.suspend is true: nothing runs",
        "Progressing is False: spec.suspend is true: nothing runs",
    ], "Ready repeats what Deployed says"


def test_a_rollout_is_told_of_what_is_deployed_and_of_what_is_on_its_way() -> None:
    running_well = observation(schedext(), pod("a", running()))
    known = carried_out(running_well, plan(running_well))
    spec = msgspec.structs.replace(known.schedext.spec, sched="x:v2")
    changed = replace(known, schedext=msgspec.structs.replace(known.schedext, spec=spec))

    words = "the DaemonSet controller has not seen the last change yet"
    assert [event.message for event in events(changed)] == [
        f"Deployed is False: {words}",
        f"Progressing is True: {words}",
    ]


def test_a_warning_is_told_also_when_it_is_the_first_answer() -> None:
    seen = observation(schedext(), rival=schedext("rival"))

    assert [(event.is_warning, event.reason) for event in events(seen)] == [(True, "Overlapping")]


# Rivals


def selecting(name: str, **labels: str) -> SchedExt:
    return schedext(name, node_selector=labels)


def requiring(name: str, *terms: NodeSelectorTerm) -> SchedExt:
    required = NodeSelector(node_selector_terms=terms)
    affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    return schedext(name, affinity=Affinity(node_affinity=affinity))


def term(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=(NodeLabelRequirement(key=key, operator=operator, values=values),)
    )


def all_of(*terms: NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=tuple(each for term in terms for each in term.match_expressions)
    )


@pytest.mark.parametrize(
    ("one", "other", "may_meet"),
    [
        pytest.param(schedext("a"), schedext("b"), True, id="both want all nodes"),
        pytest.param(selecting("a", pool="x"), schedext("b"), True, id="one wants all nodes"),
        pytest.param(selecting("a", pool="x"), selecting("b", pool="y"), False, id="two pools"),
        pytest.param(selecting("a", pool="x"), selecting("b", arch="y"), True, id="different labels"),
        pytest.param(
            selecting("a", pool="x"), requiring("b", term("pool", "NotIn", "x", "z")), False, id="NotIn"
        ),
        pytest.param(
            requiring("a", term("pool", "In", "x", "y")),
            requiring("b", term("pool", "NotIn", "x")),
            True,
            id="NotIn for one of two",
        ),
        pytest.param(
            requiring("a", all_of(term("pool", "In", "x", "y"), term("pool", "NotIn", "x"))),
            requiring("b", term("pool", "NotIn", "y")),
            False,
            id="NotIn for each of two, together",
        ),
        pytest.param(
            selecting("a", pool="x"), requiring("b", term("pool", "DoesNotExist")), False, id="DoesNotExist"
        ),
        pytest.param(
            requiring("a", term("pool", "Exists")), requiring("b", term("pool", "Exists")), True, id="Exists"
        ),
        pytest.param(
            selecting("a", pool="x"),
            requiring("b", term("pool", "In", "y"), term("arch", "Exists")),
            True,
            id="one of several terms may meet",
        ),
        pytest.param(selecting("a", pool="x"), requiring("b", NodeSelectorTerm()), False, id="an empty term"),
        pytest.param(
            requiring("a", term("cores", "Gt", "8")),
            requiring("b", term("cores", "Lt", "4")),
            True,
            id="numbers",
        ),
        pytest.param(schedext("a"), schedext("b", suspend=True), False, id="one is suspended"),
        pytest.param(schedext("a"), schedext("a"), False, id="itself"),
        pytest.param(schedext("a"), schedext("a", namespace="other"), True, id="its namesake"),
    ],
)
def test_rivals_are_those_that_are_not_provably_elsewhere(
    one: SchedExt, other: SchedExt, may_meet: bool
) -> None:
    assert are_rivals(one, other) == may_meet
    assert are_rivals(other, one) == may_meet


def are_rivals(one: SchedExt, other: SchedExt) -> bool:
    rivals: Rivals[tuple[str, str]] = Rivals()
    keys = [(each.metadata.namespace, each.metadata.name) for each in (one, other)]
    for key, each in zip(keys, (one, other), strict=True):
        rivals.update(key, each)
    return rivals.first(keys[0]) == keys[1]


any_selector = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
any_terms = st.lists(nodelabels.terms, max_size=2)


def wanting(name: str, selector: dict[str, str], wanted: list[NodeSelectorTerm]) -> SchedExt:
    asked = requiring(name, *wanted) if wanted else schedext(name)
    return msgspec.structs.replace(asked, spec=msgspec.structs.replace(asked.spec, node_selector=selector))


def wants(selector: dict[str, str], wanted: list[NodeSelectorTerm], node: dict[str, str]) -> bool:
    return selector.items() <= node.items() and (
        not wanted or any(nodelabels.term_matches(term, node) for term in wanted)
    )


NODES = [
    {key: value for key, value in zip("ab", values, strict=True) if value}
    for values in itertools.product(("", "x", "y", "another"), repeat=2)
]


@given(any_selector, any_terms, any_selector, any_terms)
def test_two_are_rivals_exactly_if_there_can_be_a_node_that_both_want(
    mine: dict[str, str],
    my_terms: list[NodeSelectorTerm],
    theirs: dict[str, str],
    their_terms: list[NodeSelectorTerm],
) -> None:
    one, other = wanting("a", mine, my_terms), wanting("b", theirs, their_terms)

    can_meet = any(wants(mine, my_terms, node) and wants(theirs, their_terms, node) for node in NODES)

    assert are_rivals(one, other) == can_meet


def test_a_rival_is_named_in_the_condition() -> None:
    seen = observation(schedext("a"), rival=schedext("c", namespace="prod"))

    (written,) = [action for action in plan(seen) if isinstance(action, WriteStatus)]
    accepted = written.status.conditions[0]
    assert (accepted.type, accepted.status, accepted.reason) == ("Accepted", "True", "Overlapping")
    assert accepted.message.startswith("prod/c may want the same nodes")


# Whatever is seen, it is done once

any_spec = schedext_specs.specs.map(lambda spec: msgspec.convert(spec, SchedExtSpec))
any_pods: st.SearchStrategy[list[Pod]] = st.lists(
    st.builds(
        pod, st.sampled_from("abc"), st.sampled_from([None, running(5), running(99), waiting("ErrImagePull")])
    ),
    max_size=3,
)


def of_spec(spec: SchedExtSpec) -> SchedExt:
    return msgspec.structs.replace(schedext(), spec=spec)


@given(wanted=any_spec, before=st.one_of(st.none(), any_spec), pods=any_pods, foreign=st.booleans())
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(
    wanted: SchedExtSpec, before: SchedExtSpec | None, pods: list[Pod], foreign: bool
) -> None:
    existing = None if before is None else served(daemon_set(of_spec(before), desired=len(pods)))
    if existing is not None and foreign:
        nobody = msgspec.structs.replace(existing.metadata, owner_references=())
        existing = msgspec.structs.replace(existing, metadata=nobody)
    seen = observation(of_spec(wanted), daemon_set=existing, pods=tuple(pods))

    after = carried_out(seen, plan(seen))

    assert plan(after) == ()
    if foreign and existing is not None:
        assert after.daemon_set == existing


@given(wanted=any_spec, before=any_spec)
@example(
    wanted=SchedExtSpec(sched="scx_rusty", resources=Resources(requests={"cpu": 0})),
    before=SchedExtSpec(sched="scx_rusty", resources=Resources(requests={"cpu": "0"})),
)
def test_a_carried_out_plan_leaves_the_daemon_set_that_was_asked_for(
    wanted: SchedExtSpec, before: SchedExtSpec
) -> None:
    seen = observation(of_spec(wanted), daemon_set=served(daemon_set(of_spec(before))))

    after = carried_out(seen, plan(seen)).daemon_set

    if wanted.suspend:
        assert after is None
    else:
        fresh = carried_out(replace(seen, daemon_set=None), plan(replace(seen, daemon_set=None))).daemon_set
        assert after is not None
        assert fresh is not None
        # the API server has one spelling for each amount
        assert through_json(served(after).spec) == through_json(served(fresh).spec)
