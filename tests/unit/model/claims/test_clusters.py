"""Whatever a cluster looks like: one owner, no write that no rule needs, and the same answer again."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rig.builders.claims import LAST_PLACE, NOW, after, candidate, ended, pod_of, report, sights, site
from rig.cluster.nodelabels import node_labels, term_matches, terms
from schedkit.model.api.nodes import Taint
from schedkit.model.api.pod_fields import Affinity, NodeAffinity, NodeSelector, Toleration
from schedkit.model.api.schedextnode import Eligibility, NodeOwnerKind
from schedkit.model.claims.candidates import Binding, Candidate, StopNote, Template
from schedkit.model.claims.claim import Claim
from schedkit.model.claims.decision import Decision, Sights, decide
from schedkit.model.claims.handover import Phase
from schedkit.model.claims.holds import Hold, HoldKind
from schedkit.model.claims.placement import selects
from schedkit.model.claims.sites import NOBODY, Cause, Site
from schedkit.model.claims.templates import Intent
from schedkit.model.claims.worklist import (
    CloseTemplate,
    DeleteDaemonSet,
    ResumeSchedExt,
    StopSchedExt,
    worklist,
)


def requiring(*wanted: Any) -> Affinity:  # noqa: ANN401 - terms
    required = NodeSelector(node_selector_terms=wanted)
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


candidates = st.builds(
    candidate,
    name=st.sampled_from("klm"),
    pool=st.sampled_from(["", "", "p"]),
    namespace=st.sampled_from(["default", "team"]),
    age_s=st.integers(0, 2),
    priority=st.integers(-1, 2),
    selector=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=1),
    affinity=st.none() | st.lists(terms, min_size=1, max_size=2).map(lambda some: requiring(*some)),
    tolerations=st.sampled_from([(), (Toleration(key="t", operator="Exists"),)]),
    template=st.sampled_from(Template),
    asks_for_another_template=st.booleans(),
    may_run=st.integers(0, 5).map(bool),
    stop=st.sampled_from([None, None, None, None, StopNote(), StopNote("storm")]),
    is_suspended=st.integers(0, 5).map(lambda number: number == 0),
    is_leaving=st.integers(0, 5).map(lambda number: number == 0),
    max_unavailable=st.sampled_from([1, 2, "50%"]),
)


def as_a_spec_would_be(found: list[Candidate]) -> list[Candidate]:
    """A pool has a SchedExt, is never open, and shares what its SchedExt says; nobody is there twice."""
    mains = {each.resource: each for each in found if not each.pool}
    pools = {each.resource: each for each in found if each.pool and each.resource in mains}
    return [*mains.values(), *(_pool(each, mains[each.resource]) for each in pools.values())]


def _pool(pool: Candidate, of: Candidate) -> Candidate:
    template = Template.CLOSED if pool.template is not Template.ABSENT else Template.ABSENT
    return msgspec.structs.replace(
        pool,
        template=template,
        created=of.created,
        priority=of.priority,
        stop=of.stop,
        is_suspended=of.is_suspended,
        is_leaving=pool.is_leaving or of.is_leaving,
    )


@st.composite
def sites(draw: st.DrawFn, name: str, found: list[Candidate]) -> Site:
    dead = candidate("dead")
    pods = tuple(
        pod_of(each, name, is_ending=draw(st.booleans()))
        for each in draw(
            st.lists(st.sampled_from([*found, dead]), max_size=2, unique_by=lambda one: one.claim)
        )
    )
    exits = tuple(ended(each, draw(st.sampled_from([64, 67, 1024])), count=3) for each in pods[:1])
    said = st.builds(
        report,
        state=st.sampled_from(["enabled", "disabled", "disabling"]),
        owner=st.sampled_from(NodeOwnerKind),
        pod=st.sampled_from([None, *pods]),
        boot=st.sampled_from(["", "", "shared"]),
        exits=st.sampled_from([(), (), exits]),
        eligible=st.sampled_from([Eligibility.YES, Eligibility.YES, Eligibility.NO, Eligibility.UNKNOWN]),
    )
    holds = st.builds(
        Hold,
        kind=st.sampled_from(HoldKind),
        time=st.sampled_from([NOW, NOW - timedelta(hours=1), NOW - timedelta(days=2)]),
        schedext=st.sampled_from([each.resource for each in found] or [""]),
        revision=st.sampled_from([each.revision for each in found] or [""]),
        level=st.integers(1, 2),
    )
    return site(
        name,
        *pods,
        labels=draw(node_labels),
        taints=draw(
            st.sampled_from([(), (), (Taint("t", "", "NoSchedule"),), (Taint("t", "", "NoExecute"),)])
        ),
        label=draw(st.sampled_from([None, None, NOBODY, dead.claim, *(each.claim for each in found)])),
        holds=draw(st.lists(holds, max_size=1).map(tuple)),
        report=draw(st.none() | said),
        is_ready=draw(st.integers(0, 4).map(bool)),
        free_since=draw(st.sampled_from([None, NOW, NOW - timedelta(hours=1)])),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Sights:
    found = as_a_spec_would_be(draw(st.lists(candidates, max_size=5)))
    there = [draw(sites(f"n{number}", found)) for number in range(draw(st.integers(0, 4)))]
    bound = draw(st.sampled_from([{}, {"team": Binding(selector={"a": "x"})}]))
    return sights(found, there, ceiling=draw(st.integers(0, 2)), namespaces=bound)


def is_whose_it_is_said_to_be(decision: Decision, claim: Claim) -> None:
    assert bool(claim.owner) is (claim.cause is Cause.OWNED)
    if claim.owner:
        owner = decision.contests.by_claim[claim.owner]
        assert owner.wants_nodes
        assert selects(owner, claim.site.name, claim.site.labels)


def is_nobodys_if_it_is_held(decision: Decision, claim: Claim) -> None:
    if claim.cause not in {Cause.OWNED, Cause.UNWANTED}:
        assert claim.label == NOBODY


def is_not_granted_while_another_one_is_there(decision: Decision, claim: Claim) -> None:
    if claim.phase is Phase.GRANTED and claim.owner and claim.site.label == NOBODY:
        assert not claim.site.has_pod_of_another(claim.owner)
        assert not claim.site.is_still_attached(claim.owner)
        assert claim.site.is_ready


def is_not_written_for_an_open_one(decision: Decision, claim: Claim) -> None:
    """But for holds, hand-overs, closing, and another open one that must be kept off."""
    owner = decision.contests.by_claim.get(claim.owner)
    is_open = owner is not None and owner.template is Template.OPEN
    is_undisputed = not decision.contests.of(claim.site).opens - {claim.owner}
    if is_open and is_undisputed and decision.intents[claim.owner] is Intent.STAYS:
        assert claim.label == claim.site.label or claim.site.label not in {None, claim.owner}


ALWAYS = (
    is_whose_it_is_said_to_be,
    is_nobodys_if_it_is_held,
    is_not_granted_while_another_one_is_there,
    is_not_written_for_an_open_one,
)


@given(clusters(), st.randoms(use_true_random=False))
def test_whatever_a_cluster_looks_like_each_node_has_at_most_one_owner(
    seen: Sights, dice: random.Random
) -> None:
    decision = decide(seen)

    assert [each.site for each in decision.claims] == list(seen.sites)
    for holds in ALWAYS:
        for each in decision.claims:
            holds(decision, each)
    shuffled = dice.sample(seen.candidates, len(seen.candidates))
    again = decide(msgspec.structs.replace(seen, candidates=tuple(shuffled)))
    assert sorted(map(repr, worklist(again))) == sorted(map(repr, worklist(decision)))


@given(clusters())
def test_what_is_written_is_written_once_and_then_nothing(seen: Sights) -> None:
    """What follows must be seen through the watch first, or comes of a stop, a resume or a close of ours."""
    first = worklist(decide(seen))
    written = after(seen, first)
    second = worklist(decide(written))

    if not any(isinstance(each, StopSchedExt | ResumeSchedExt | CloseTemplate) for each in first):
        assert [each for each in second if not isinstance(each, CloseTemplate | DeleteDaemonSet)] == []
    assert worklist(decide(after(after(written, second)))) == ()
    known = {each.claim for each in seen.candidates if each.template is not Template.ABSENT}
    new = [each for each in written.candidates if each.template is Template.OPEN and each.claim not in known]
    for each in seen.sites:
        assert sum(selects(one, each.name, each.labels) for one in new) <= 1


@given(st.lists(terms, min_size=1, max_size=2), node_labels)
def test_nodes_are_selected_as_kubernetes_does_it(wanted: list[Any], labels: dict[str, str]) -> None:
    asked = candidate("k", affinity=requiring(*wanted), place=LAST_PLACE)

    assert selects(asked, "n1", labels) is any(term_matches(each, labels) for each in wanted)
