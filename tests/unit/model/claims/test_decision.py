"""Two SchedExts on the same nodes: one owner each, handed over without a fight."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from rig.builders.claims import (
    NOW,
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
from schedkit.model.api.nodes import Taint
from schedkit.model.api.pod_fields import Toleration
from schedkit.model.api.schedextnode import Eligibility
from schedkit.model.claims.candidates import Candidate, StopNote, Template
from schedkit.model.claims.decision import decide
from schedkit.model.claims.handover import Phase
from schedkit.model.claims.sites import NOBODY, Cause, Note, Site
from schedkit.model.claims.worklist import DeleteDaemonSet, MakeDaemonSet, WriteNode

OLD, NEW = opened("old", age_s=60), candidate("new")
HIGHER = closed("new", priority=5)


def phase(*, candidates: tuple[Candidate, ...], at: Site) -> Phase:
    (found,) = decide(sights(candidates, [at], ceiling=10)).claims
    return found.phase


# Who


def test_a_single_schedext_is_open_and_no_node_is_written() -> None:
    made = work(sights([candidate("only")], [site("n1"), site("n2")]))

    assert [(type(each), each.template) for each in made if isinstance(each, MakeDaemonSet)] == [
        (MakeDaemonSet, Template.OPEN)
    ]
    assert labels(made) == {}


def test_of_two_that_come_together_the_older_is_open_and_the_other_is_born_closed() -> None:
    made = work(sights([candidate("b"), candidate("a", age_s=9)], [site("n1")]))

    found = {each.claim.rpartition("-")[0]: each.template for each in made if isinstance(each, MakeDaemonSet)}
    assert found == {"a": Template.OPEN, "b": Template.CLOSED}
    assert labels(made) == {}


def test_those_that_share_no_node_are_both_open() -> None:
    made = work(sights([candidate("a", selector={"x": "1"}), candidate("b", selector={"x": "2"})], []))

    assert [each.template for each in made if isinstance(each, MakeDaemonSet)] == [Template.OPEN] * 2


@pytest.mark.parametrize(
    ("mine", "ceiling", "owner"),
    [
        pytest.param({"priority": 1}, 10, "new", id="a higher priority goes first"),
        pytest.param({"priority": 99}, None, "old", id="without a ceiling nobody goes before others"),
        pytest.param({"priority": -1, "age_s": 99}, 10, "old", id="a lower priority goes last"),
        pytest.param({"age_s": 99}, 10, "old", id="who runs there goes before the older"),
    ],
)
def test_rank(mine: dict[str, Any], ceiling: int | None, owner: str) -> None:
    limits: dict[str, Any] = {} if ceiling is None else {"ceiling": ceiling}
    seen = sights([OLD, candidate("new", **mine)], [site("n1", OLD)], **limits)

    assert owners(decide(seen)) == {"n1": owner}


def test_where_nobody_runs_the_older_has_the_node_and_then_the_first_by_name() -> None:
    b, a, oldest = closed("b"), closed("a"), closed("oldest", age_s=9)

    assert owners(decide(sights([b, a], [site()]))) == {"n1": "a"}
    assert owners(decide(sights([b, a, oldest], [site()]))) == {"n1": "oldest"}


def test_while_the_pod_of_the_open_one_is_replaced_an_older_one_does_not_move_in() -> None:
    """As in a rolling update of the whole fleet."""
    seen = sights([opened("young"), closed("older", age_s=9)], [site("n1")])

    assert owners(decide(seen)) == {"n1": "young"}
    assert work(seen) == ()


def test_who_may_not_run_takes_no_node_and_keeps_those_that_it_runs_on() -> None:
    unsigned = msgspec.structs.replace(HIGHER, may_run=False)
    seen = sights([OLD, unsigned], [site("n1", OLD), site("n2", unsigned, label=unsigned.claim)], ceiling=10)

    assert owners(decide(seen)) == {"n1": "old", "n2": "new"}


# Hand-over


def test_a_node_is_handed_over_in_two_steps() -> None:
    seen = sights([OLD, HIGHER], [site("n1", OLD)], ceiling=10)

    begun = after(seen)
    assert begun.sites[0].label == NOBODY
    assert work(begun) == ()  # the old one's pod is there

    gone = msgspec.structs.replace(begun, sites=(msgspec.structs.replace(begun.sites[0], pods=()),))
    assert labels(work(gone)) == {"n1": HIGHER.claim}
    assert work(after(gone)) == ()


def test_a_node_comes_back_to_the_open_one_by_losing_its_label() -> None:
    lower = closed("new", priority=-5)
    begun = after(sights([OLD, lower], [site("n1", lower, label=lower.claim)]))
    assert begun.sites[0].label == NOBODY

    gone = msgspec.structs.replace(begun, sites=(msgspec.structs.replace(begun.sites[0], pods=()),))
    assert labels(work(gone)) == {"n1": None}


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param(site("n1", OLD, label=NOBODY), Phase.ENDING, id="a pod that is there"),
        pytest.param(
            site("n1", pod_of(OLD, is_ending=True), label=NOBODY), Phase.ENDING, id="a pod on its way out"
        ),
        pytest.param(
            site("n1", label=NOBODY, report=report("enabled", pod=pod_of(OLD))),
            Phase.STILL_ATTACHED,
            id="a kernel that still runs it",
        ),
        pytest.param(
            site("n1", label=NOBODY, report=report("disabling")), Phase.STILL_ATTACHED, id="one that ends it"
        ),
        pytest.param(site("n1", label=NOBODY, report=report()), Phase.GRANTED, id="nothing"),
        pytest.param(site("n1", label=NOBODY), Phase.GRANTED, id="without a report the pod's end alone"),
        pytest.param(site("n1", OLD, is_ready=False), Phase.NOT_READY, id="a node that is not Ready"),
        pytest.param(
            site("n1", label=NOBODY, is_ready=False), Phase.NOT_READY, id="one that stopped being Ready"
        ),
        pytest.param(
            site("n1", OLD, taints=(Taint("node.kubernetes.io/network-unavailable", "", "NoSchedule"),)),
            Phase.KEPT_OUT,
            id="a taint that would keep the winner away",
        ),
        pytest.param(
            site("n1", OLD, taints=(Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule"),)),
            Phase.BEGUN,
            id="not one that pods of DaemonSets tolerate",
        ),
    ],
)
def test_what_keeps_a_node_from_its_new_owner(at: Site, expected: Phase) -> None:
    assert phase(candidates=(OLD, HIGHER), at=at) is expected


@pytest.mark.parametrize(("budget", "begun"), [(1, 1), (3, 3), ("25%", 2), ("1%", 1)])
def test_no_more_are_on_their_way_than_the_winner_may_miss(budget: int | str, begun: int) -> None:
    winner = msgspec.structs.replace(HIGHER, max_unavailable=budget)
    first = sights([OLD, winner], [site(f"n{number}", OLD) for number in range(8)], ceiling=10)

    assert len(labels(work(first))) == begun
    assert work(after(first)) == ()


def test_a_node_that_is_away_for_five_minutes_stays_nobodys_and_blocks_no_other() -> None:
    away = site("n1", OLD, label=NOBODY, is_ready=False, unready_since=NOW - timedelta(minutes=4))
    seen = sights([OLD, HIGHER], [away, site("n2", OLD)], ceiling=10)
    assert work(seen) == ()

    later = msgspec.structs.replace(seen, now=NOW + timedelta(minutes=1))
    assert labels(work(later)) == {"n2": NOBODY}


def test_a_node_that_registers_with_nobody_is_a_question_and_is_answered() -> None:
    """`none` without our annotation."""
    assert labels(work(sights([OLD], [site("n1", label=NOBODY)]))) == {"n1": None}
    both = sights([OLD, HIGHER], [site("n1", label=NOBODY)], ceiling=10)
    assert labels(work(both)) == {"n1": HIGHER.claim}


# Taints


TAINTED = (Taint("dedicated", "batch", "NoSchedule"),)
EVICTING = (Taint("dedicated", "batch", "NoExecute"),)
TOLERANT = closed("new", tolerations=(Toleration("dedicated", "Equal", "batch"),))


@pytest.mark.parametrize(
    ("at", "owner"),
    [
        pytest.param(site("n1", taints=TAINTED, label=NOBODY), "new", id="who tolerates gets it newly"),
        pytest.param(site("n1", OLD, taints=TAINTED), "old", id="NoSchedule takes nothing from who runs"),
        pytest.param(site("n1", OLD, taints=EVICTING), "new", id="NoExecute does"),
        pytest.param(
            site("n1", OLD, taints=(Taint("node.kubernetes.io/unreachable", "", "NoExecute"),)),
            "old",
            id="what Kubernetes says about a node moves nothing",
        ),
    ],
)
def test_taints_decide_who_may_newly_get_a_node(at: Site, owner: str) -> None:
    assert owners(decide(sights([OLD, TOLERANT], [at]))) == {"n1": owner}


# Stop, suspend, and what is left of the dead


def test_a_stop_deletes_the_daemonset_and_writes_no_node() -> None:
    stopped = msgspec.structs.replace(opened("old"), stop=StopNote())
    seen = sights([stopped, closed("older", age_s=9)], [site("n1", stopped), site("n2", stopped)])

    assert [type(each) for each in work(seen)] == [DeleteDaemonSet]
    gone = msgspec.structs.replace(after(seen), sites=(site("n1"), site("n2")))
    assert work(gone) == ()  # and nobody else moves in
    assert owners(decide(gone)) == {"n1": "old", "n2": "old"}


def test_a_stopped_one_takes_no_node_from_who_runs_there() -> None:
    stopped = msgspec.structs.replace(HIGHER, stop=StopNote(), template=Template.ABSENT)

    assert work(sights([OLD, stopped], [site("n1", OLD)], ceiling=10)) == ()


def test_the_nodes_of_a_suspended_one_go_to_the_next() -> None:
    suspended = msgspec.structs.replace(OLD, is_suspended=True, template=Template.ABSENT)
    seen = sights([suspended, closed("new")], [site("n1")])

    assert owners(decide(seen)) == {"n1": "new"}


def test_labels_of_the_dead_are_removed() -> None:
    made = work(sights([], [site("n1", label="dead-0123456789ab"), site("n2")]))

    assert made == (WriteNode("n1", "uid-n1", "dead-0123456789ab", None, (), Note()),)


def test_an_ineligible_node_is_nobodys_until_a_report_says_otherwise() -> None:
    no = report("absent", eligible=Eligibility.NO)
    held = after(sights([OLD], [site("n1", OLD, report=no)]))
    assert (held.sites[0].label, held.sites[0].note.cause) == (NOBODY, Cause.INELIGIBLE)

    silent = msgspec.structs.replace(
        held, sites=(msgspec.structs.replace(held.sites[0], report=None, pods=()),)
    )
    assert work(silent) == ()
    able = msgspec.structs.replace(held, sites=(msgspec.structs.replace(silent.sites[0], report=report()),))
    assert labels(work(able)) == {"n1": None}


def test_nodes_that_report_one_boot_have_one_owner() -> None:
    sites = [site(f"n{number}", report=report(boot="same")) for number in (1, 2, 3)]
    made = sights([OLD], sites)

    assert labels(work(made)) == {"n2": NOBODY, "n3": NOBODY}
    assert work(after(made)) == ()
