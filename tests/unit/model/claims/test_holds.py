"""What keeps a scheduler off a node: humans, foreign schedulers, and its own ejects."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from rig.builders.claims import (
    NOW,
    after,
    candidate,
    closed,
    ended,
    labels,
    opened,
    owners,
    pod_of,
    report,
    sights,
    site,
    work,
)
from schedkit.model.api.schedextnode import NodeExit, NodeOwnerKind
from schedkit.model.claims.candidates import Candidate, StopNote
from schedkit.model.claims.decision import Sights, decide
from schedkit.model.claims.holds import Hold, HoldKind, read_holds, written_holds
from schedkit.model.claims.sites import NOBODY, Cause, Site
from schedkit.model.claims.worklist import DeleteDaemonSet, ResumeSchedExt, StopSchedExt, WriteNode

SCX, OTHER = opened("scx"), closed("other")
SYSRQ, HOTPLUG = 67, 66
STOP = Hold(HoldKind.STOP, "latency doubled", NOW, "kim")


def with_site(seen: Sights, **given: object) -> Sights:
    """The first site has changed."""
    return msgspec.structs.replace(
        seen, sites=(msgspec.structs.replace(seen.sites[0], **given), *seen.sites[1:])
    )


def later(seen: Sights, **passed: float) -> Sights:
    return msgspec.structs.replace(seen, now=seen.now + timedelta(**passed))


def cause(seen: Sights) -> Cause:
    return decide(seen).claims[0].cause


# A human's stop


def test_a_human_stops_a_node_and_only_the_human_resumes_it() -> None:
    held = after(sights([SCX, OTHER], [site("n1", SCX, holds=(STOP,))]))
    assert (held.sites[0].label, held.sites[0].holds) == (NOBODY, (STOP,))

    for days in (0, 1, 400):
        assert work(later(with_site(held, pods=()), days=days)) == ()
    assert labels(work(with_site(held, pods=(), holds=()))) == {"n1": None}


def test_a_label_that_somebody_removed_is_put_back() -> None:
    assert labels(work(sights([SCX], [site("n1", holds=(STOP,))]))) == {"n1": NOBODY}


def test_after_a_resume_the_node_is_whose_it_was_though_another_is_older() -> None:
    older = closed("older", age_s=99)
    seen = sights([closed("scx"), older], [site("n1", closed("scx"), label=closed("scx").claim)])
    held = with_site(after(with_site(seen, holds=(STOP,))), pods=())

    assert labels(work(with_site(held, holds=()))) == {"n1": closed("scx").claim}


def test_sysrq_is_a_humans_stop_and_holds_everybody() -> None:
    at = site("n1", SCX, report=report(exits=(ended(pod_of(SCX), SYSRQ),)))
    held = after(sights([SCX, OTHER], [at]))

    (hold,) = held.sites[0].holds
    assert (hold.kind, hold.schedext, held.sites[0].label) == (HoldKind.STOP, "default/scx", NOBODY)
    assert work(held) == ()


def test_a_resume_after_sysrq_counts_although_the_end_is_still_in_the_report() -> None:
    held = after(sights([SCX], [site("n1", SCX, report=report(exits=(ended(pod_of(SCX), SYSRQ),)))]))
    gone = with_site(held, pods=())

    resumed = after(with_site(gone, holds=()))
    assert (resumed.sites[0].label, resumed.sites[0].holds) == (None, ())
    another = msgspec.structs.replace(pod_of(SCX), uid="another")
    assert work(with_site(resumed, pods=(another,))) == ()


@pytest.mark.parametrize("written", ["", "3 a.m., no idea", "{", '{"kind": "Stop"}', '[{"kind": "No"}]'])
def test_whatever_somebody_wrote_by_hand_is_a_stop(written: str) -> None:
    (hold,) = read_holds(written)

    assert (hold.kind, hold.reason) == (HoldKind.STOP, written)


def test_a_record_whose_date_says_no_zone_is_a_stop_and_not_an_error() -> None:
    (hold,) = read_holds('[{"kind": "Foreign", "time": "2026-03-01T03:00:00"}]')

    assert hold.kind is HoldKind.STOP
    assert cause(sights([SCX], [site("n1", holds=(hold,))])) is Cause.STOPPED


def test_what_a_record_says_is_shown_on_one_line_and_not_for_ever() -> None:
    (hold,) = read_holds(written_holds((Hold(HoldKind.STOP, "a\x1b[2Jb\n" + "c" * 9999),)))

    assert hold.reason.isprintable()
    assert len(hold.reason) <= 512


def test_records_are_read_as_they_were_written() -> None:
    holds = (STOP, Hold(HoldKind.QUARANTINE, "stall", NOW, "sked", "a/b", "1", 2))

    assert read_holds(written_holds(holds)) == holds
    assert (read_holds(None), written_holds(())) == ((), None)


# Foreign schedulers


@pytest.mark.parametrize("whose", [NodeOwnerKind.SCHEDCTL, NodeOwnerKind.FOREIGN, NodeOwnerKind.ORPHAN])
def test_a_foreign_scheduler_holds_the_node_until_two_minutes_without_one(whose: NodeOwnerKind) -> None:
    held = after(sights([SCX, OTHER], [site("n1", report=report("enabled", whose))]))
    assert (held.sites[0].label, held.sites[0].holds[0].kind) == (NOBODY, HoldKind.FOREIGN)

    free = with_site(held, report=report(), free_since=NOW)
    assert work(later(free, seconds=119)) == ()
    (freed,) = work(later(free, seconds=120))
    assert isinstance(freed, WriteNode)
    assert (freed.label, freed.holds) == (None, ())


def test_a_node_that_nobody_wants_is_not_held_for_a_foreign_scheduler() -> None:
    assert work(sights([], [site("n1", report=report("enabled", NodeOwnerKind.FOREIGN))])) == ()


def test_a_pod_that_is_not_known_gets_half_a_minute_to_be_ours() -> None:
    strange = report("enabled", pod=pod_of(candidate("unknown")))
    seen = sights([SCX], [site("n1", report=strange, stranger_since=NOW)])

    assert work(later(seen, seconds=29)) == ()
    assert labels(work(later(seen, seconds=30))) == {"n1": NOBODY}


# Quarantine


def ejected(*exits: NodeExit, whose: Candidate = SCX) -> Site:
    return site("n1", whose, report=report(exits=exits))


@pytest.mark.parametrize(
    ("exits", "is_held"),
    [
        pytest.param((ended(pod_of(SCX), count=3),), True, id="three ejects"),
        pytest.param((ended(pod_of(SCX), count=2),), False, id="two ejects"),
        pytest.param(
            tuple(ended(pod_of(SCX), minutes_ago=ago) for ago in (29, 15, 1)), True, id="within half an hour"
        ),
        pytest.param(
            tuple(ended(pod_of(SCX), minutes_ago=ago) for ago in (32, 15, 1)), False, id="over a longer time"
        ),
        pytest.param((ended(pod_of(SCX), HOTPLUG, count=9),), False, id="hotplug restarts are none"),
        pytest.param((ended(pod_of(SCX), 64, count=9),), False, id="orderly ends are none"),
        pytest.param((ended(pod_of(OTHER), count=9),), False, id="another one's are not its own"),
        pytest.param(
            (msgspec.structs.replace(ended(pod_of(SCX), count=9), first_time=NOW - timedelta(days=1)),),
            False,
            id="nine spread over a day",
        ),
    ],
)
def test_three_ejects_within_half_an_hour_are_a_quarantine(
    exits: tuple[NodeExit, ...], *, is_held: bool
) -> None:
    assert (cause(sights([SCX], [ejected(*exits)])) is Cause.QUARANTINED) is is_held


def test_the_first_quarantine_ends_by_itself_and_is_remembered_for_a_day() -> None:
    held = after(sights([SCX], [ejected(ended(pod_of(SCX), count=3))]))
    assert (held.sites[0].label, held.sites[0].holds[0].level) == (NOBODY, 1)
    gone = with_site(held, pods=())

    assert work(later(gone, minutes=14)) == ()
    free = after(later(gone, minutes=15))
    assert (free.sites[0].label, free.sites[0].holds) == (None, held.sites[0].holds)
    assert work(later(free, hours=23)) == ()
    assert after(later(free, hours=24)).sites[0].holds == ()


def test_the_next_eject_within_a_day_is_a_quarantine_that_does_not_end_by_itself() -> None:
    held = after(sights([SCX], [ejected(ended(pod_of(SCX), count=3))]))
    free = after(later(with_site(held, pods=()), minutes=15))
    new = msgspec.structs.replace(pod_of(SCX), uid="new")

    again = after(with_site(free, pods=(new,), report=report(exits=(ended(new),))))
    assert (again.sites[0].label, again.sites[0].holds[0].level) == (NOBODY, 2)
    gone = with_site(again, pods=())
    assert work(later(gone, days=9)) == ()

    other_image = msgspec.structs.replace(SCX, revision="scx-2")
    changed = after(msgspec.structs.replace(gone, candidates=(other_image,)))
    assert (changed.sites[0].label, changed.sites[0].holds) == (None, ())
    assert after(with_site(gone, holds=())).sites[0].label is None  # a resume
    deleted = after(msgspec.structs.replace(gone, candidates=()))
    assert (deleted.sites[0].label, deleted.sites[0].holds) == (None, ())


def test_a_quarantine_bars_its_schedext_alone() -> None:
    held = after(sights([SCX, OTHER], [ejected(ended(pod_of(SCX), count=3))]))
    assert (owners(decide(held)), held.sites[0].label) == ({"n1": "other"}, NOBODY)

    gone = after(with_site(held, pods=()))
    assert gone.sites[0].label == OTHER.claim
    other = with_site(gone, pods=(pod_of(OTHER),))
    assert work(later(other, hours=1)) == ()  # who runs there now goes before others


def test_an_eject_storm_stops_the_schedext_as_a_whole_until_a_resume() -> None:
    ill = [
        site(name, SCX, label=None, report=report(boot=name, exits=(ended(pod_of(SCX, name), count=3),)))
        for name in ("n1", "n2", "n3")
    ]
    well = [site(f"n{number}", SCX) for number in range(4, 30)]
    seen = sights([SCX], [*ill, *well])

    stop, *others = work(seen)
    assert isinstance(stop, StopSchedExt)
    assert (stop.resource, stop.stop) == ("default/scx", StopNote("scx-1"))
    assert {type(each) for each in others} == {WriteNode}

    stopped = after(seen)
    assert isinstance(work(stopped)[0], DeleteDaemonSet)
    ended_all = after(
        msgspec.structs.replace(
            stopped, sites=tuple(msgspec.structs.replace(each, pods=()) for each in stopped.sites)
        )
    )
    assert work(ended_all) == ()
    assert {each.holds for each in ended_all.sites} == {()}  # a resume begins anew

    changed = msgspec.structs.replace(
        ended_all, candidates=(msgspec.structs.replace(ended_all.candidates[0], revision="scx-2"),)
    )
    assert isinstance(work(changed)[0], ResumeSchedExt)


def test_three_of_many_nodes_are_no_storm() -> None:
    ill = [
        site(name, SCX, report=report(boot=name, exits=(ended(pod_of(SCX, name), count=3),)))
        for name in ("n1", "n2", "n3")
    ]
    well = [site(f"n{number}", SCX) for number in range(4, 31)]

    assert not any(isinstance(each, StopSchedExt) for each in work(sights([SCX], [*ill, *well])))


def test_holds_are_written_before_everything_else_on_nodes() -> None:
    winner = closed("winner", priority=1, max_unavailable=2)
    sites = [site("n1", SCX), site("n2", label="dead-0", taints=()), site("n3", SCX, holds=(STOP,))]

    names = [
        each.name for each in work(sights([SCX, winner], sites, ceiling=1)) if isinstance(each, WriteNode)
    ]
    assert names == ["n3", "n2", "n1"]
