"""A SchedExt that somebody stopped runs nothing, whatever its spec says by now."""

from __future__ import annotations

import pytest

from rig.builders.observations import IMAGE, daemon_set, observation, pod, running, schedext
from rig.builders.plans import make_plan
from schedkit.model.api.schedext import STOP_KEY, SchedExt
from schedkit.model.deploy.observation import asks_the_same
from schedkit.model.deploy.plan import DeleteDaemonSet, decide
from schedkit.model.deploy.stops import Stop, rests, stop_of, words_of_stop
from schedkit.model.report.plan import WriteStatus

WRITTEN = '{"reason": "latency doubled", "by": "kim", "time": "2026-03-01T03:12:00Z"}'


def stopped(written: str = WRITTEN, *, sched: str = IMAGE) -> SchedExt:
    return schedext(needs="stop", stop=written, sched=sched)


DEEP = '{"x":' + "[" * 5000


@pytest.mark.parametrize(
    "written", [WRITTEN, "", "3 a.m., no idea", "{", "[]", DEEP, '{"reason": 3}', "\u202e"]
)
def test_whatever_the_annotation_says_nothing_runs(written: str) -> None:
    made = daemon_set(schedext())

    found = decide(observation(stopped(written), pod("node-1", running(60)), daemon_set=made))

    assert found.write == DeleteDaemonSet(made.metadata.name, made.metadata.uid)
    assert decide(observation(stopped(written), daemon_set=None)).write is None
    assert found.unknown_needs == ()


def test_no_text_keeps_the_status_from_being_told() -> None:
    assert stop_of(stopped(DEEP)) == Stop(reason=DEEP)


def test_a_changed_spec_starts_nothing() -> None:
    """As image automation writes it, ten minutes after a stop."""
    asked = stopped(sched="ghcr.io/schedkit/scx_lavd:v2")

    assert decide(observation(asked, daemon_set=None)).write is None


def test_who_stopped_it_and_how_it_starts_again_stands_in_the_status() -> None:
    (written,) = [
        each
        for each in make_plan(observation(stopped(), daemon_set=None)).actions
        if isinstance(each, WriteStatus)
    ]

    told = {each.type: each for each in written.status.conditions}
    for kind in ("Deployed", "Ready"):
        assert (told[kind].status, told[kind].reason) == ("False", "Stopped")
        assert "stopped by kim at 2026-03-01T03:12:00Z: latency doubled" in told[kind].message
        assert "kubectl sked resume scx" in told[kind].message
        assert STOP_KEY in told[kind].message


def test_words_of_strangers_stay_on_one_line_and_short() -> None:
    words = words_of_stop(Stop(reason="a\nb\u202e" + "x" * 1000, by="\x1b[31mkim"))

    assert words.isprintable()
    assert len(words) < 600


def test_a_stop_and_its_end_are_changes() -> None:
    assert not asks_the_same(schedext(), stopped())
    assert rests(stopped())
    assert rests(schedext(suspend=True))
    assert not rests(schedext())
    assert stop_of(schedext()) is None
