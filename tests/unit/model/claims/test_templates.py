"""Pools, tenants, and open templates from the time before claims."""

from __future__ import annotations

import msgspec

from rig.builders.claims import (
    after,
    candidate,
    closed,
    labels,
    opened,
    owners,
    pod_of,
    report,
    sights,
    site,
    work,
)
from schedkit.model.claims.candidates import Binding, Candidate, Template, claim_of
from schedkit.model.claims.decision import Sights, decide
from schedkit.model.claims.sites import NOBODY, Cause
from schedkit.model.claims.words import reason_of_claim
from schedkit.model.claims.worklist import CloseTemplate, DeleteDaemonSet, MakeDaemonSet, WriteNode, postponed

GPU = {"gpu": "yes"}
SCX = opened("scx")
POOL = closed("scx", "gpu", selector=GPU)


def without_pods(seen: Sights) -> Sights:
    sites = tuple(msgspec.structs.replace(each, pods=()) for each in seen.sites)
    return msgspec.structs.replace(seen, sites=sites)


# Pools


def test_a_pool_has_its_part_of_the_nodes_and_the_schedext_the_rest() -> None:
    seen = sights([SCX, POOL], [site("n1", labels=GPU, label=POOL.claim), site("n2", SCX)])

    assert owners(decide(seen)) == {"n1": "scx/gpu", "n2": "scx"}
    assert work(seen) == ()


def test_the_first_pool_that_matches_wins() -> None:
    second = closed("scx", "big", place=1, selector={"size": "big"})
    both = site("n1", labels={**GPU, "size": "big"})

    assert owners(decide(sights([SCX, second, POOL], [both]))) == {"n1": "scx/gpu"}


def test_a_new_pool_is_born_closed_and_takes_its_nodes_although_the_schedext_runs_there() -> None:
    new = candidate("scx", "gpu", selector=GPU)
    seen = sights([SCX, new], [site("n1", SCX, labels=GPU), site("n2", SCX)])

    made = work(seen)
    assert labels(made) == {"n1": NOBODY}
    assert [each.template for each in made if isinstance(each, MakeDaemonSet)] == [Template.CLOSED]
    assert labels(work(without_pods(after(seen)))) == {"n1": new.claim}


def test_an_unsigned_pool_takes_no_node_from_its_schedext_and_no_other_starts_on_a_new_one() -> None:
    unsigned = msgspec.structs.replace(POOL, may_run=False)
    seen = sights([SCX, unsigned], [site("n1", SCX, labels=GPU), site("n2", SCX), site("n3", labels=GPU)])

    assert labels(work(seen)) == {"n3": unsigned.claim}


def test_a_pool_that_is_taken_out_goes_when_it_owns_no_node() -> None:
    leaving = msgspec.structs.replace(POOL, is_leaving=True)
    seen = sights([SCX, leaving], [site("n1", leaving, labels=GPU, label=leaving.claim)])

    begun = after(seen)
    assert not any(isinstance(each, DeleteDaemonSet) for each in work(seen))
    assert begun.sites[0].label == NOBODY
    assert work(begun) == ()
    made = work(without_pods(begun))
    assert labels(made) == {"n1": None}
    assert isinstance(made[-1], DeleteDaemonSet)


def test_a_pool_and_a_schedext_of_the_same_full_name_have_other_claims() -> None:
    claims = {claim_of("ns", "a", "b"), claim_of("ns", "a-b"), claim_of("ns", "a"), claim_of("b", "a-b")}

    assert len(claims) == 4
    assert all(len(claim_of("ns", "a" * 63, "b" * 63)) <= 63 for _ in claims)


# Tenants


BOUND = {"team": Binding(selector={"team": "yes"}, ceiling=3)}
THEIRS = candidate("scx", namespace="team", priority=9)


def test_a_bound_namespace_gets_no_node_outside_and_is_born_closed() -> None:
    seen = sights([THEIRS], [site("n1"), site("n2", labels={"team": "yes"})], namespaces=BOUND)

    made = work(seen)
    assert labels(made) == {"n2": THEIRS.claim}
    assert [each.template for each in made if isinstance(each, MakeDaemonSet)] == [Template.CLOSED]


def test_the_ceiling_of_a_namespace_counts_for_it_alone() -> None:
    other = candidate("other", priority=4)
    at = [site("n1", labels={"team": "yes"}, label=NOBODY)]

    assert owners(decide(sights([THEIRS, other], at, namespaces=BOUND, ceiling=9))) == {"n1": "other"}
    assert owners(decide(sights([THEIRS, other], at, namespaces=BOUND, ceiling=2))) == {"n1": "scx"}


def test_one_that_is_open_when_the_binding_comes_loses_the_nodes_outside_at_once() -> None:
    theirs = opened("scx", namespace="team")
    outside = [site(f"n{number}", theirs) for number in range(5)]
    seen = sights([theirs], [*outside, site("own", theirs, labels={"team": "yes"})], namespaces=BOUND)

    assert labels(work(seen)) == {f"n{number}": NOBODY for number in range(5)}
    assert {each.cause for each in decide(seen).claims} == {Cause.OUTSIDE, Cause.OWNED}
    assert work(without_pods(after(seen))) == ()  # it stays open

    away = msgspec.structs.replace(outside[0], is_ready=False)
    shared = sights([theirs, closed("next")], [away, *outside[1:]], namespaces=BOUND)
    assert labels(work(shared)) == {f"n{number}": NOBODY for number in range(5)}  # no budget counts


def test_one_tenant_reads_no_name_of_another() -> None:
    theirs = opened("secret", namespace="team")
    decision = decide(sights([theirs, closed("mine")], [site("n1", theirs)]))
    (claim,) = decision.claims

    told = reason_of_claim(claim, decision.contests, "default")
    assert told == "the owner is a SchedExt of another namespace: it has the node"
    assert "team/secret" in reason_of_claim(claim, decision.contests, "team")


# Open ones that overlap, from before claims


def pair(**changed: Candidate) -> tuple[Candidate, Candidate]:
    return opened("a", age_s=9), changed.get("b", opened("b"))


def test_of_two_open_ones_the_one_that_runs_keeps_its_pod_and_gets_a_label() -> None:
    a, b = pair()
    running = report("enabled", pod=pod_of(b))
    seen = sights([a, b], [site("n1", a, b, report=running)])

    assert owners(decide(seen)) == {"n1": "b"}
    assert labels(work(seen)) == {"n1": b.claim}  # without a detour over nobody: its pod stays


def test_they_stay_open_until_their_user_changes_a_template() -> None:
    a, b = pair()
    seen = sights([a, b], [site("n1", a, label=a.claim)])

    assert work(seen) == ()


def test_one_closes_when_each_of_its_nodes_was_seen_with_its_label() -> None:
    changing = opened("b", asks_for_another_template=True, selector=GPU)
    seen = sights([opened("a", age_s=9), changing], [site("n1", changing, labels=GPU)])

    first = work(seen)
    assert [type(each) for each in first] == [WriteNode]
    assert list(postponed(decide(seen))) == [changing.claim]
    (close,) = work(after(seen))
    assert isinstance(close, CloseTemplate)
    assert close.claim == changing.claim
    assert work(after(after(seen))) == ()


def test_of_two_that_change_together_the_older_stays_open() -> None:
    a, b = (opened(name, age_s=age, asks_for_another_template=True) for name, age in (("a", 9), ("b", 0)))

    assert [each.claim for each in work(sights([a, b], [])) if isinstance(each, CloseTemplate)] == [b.claim]


def test_a_template_that_reads_no_label_keeps_its_nodes() -> None:
    """The Go sked's: to grant its node to another would be a fight."""
    deaf = candidate("deaf", template=Template.DEAF)
    seen = sights([deaf, closed("higher", priority=5)], [site("n1", deaf)], ceiling=9)

    assert owners(decide(seen)) == {"n1": "deaf"}
    assert work(seen) == ()


def test_an_open_one_is_born_behind_the_labels_of_others() -> None:
    """Where a label waits for something, so does the birth."""
    other = closed("other", priority=1)
    dead = candidate("dead")
    waiting = sights([candidate("new"), other], [site("n1", dead, is_ready=False)], ceiling=1)

    assert not any(isinstance(each, MakeDaemonSet) for each in work(waiting))
    (words,) = postponed(decide(waiting)).values()
    assert words.startswith("SchedExt default/new: it is made once no node")
    made = work(sights([candidate("new"), other], [site("n1")], ceiling=1))
    assert [type(each) for each in made] == [WriteNode, MakeDaemonSet]
