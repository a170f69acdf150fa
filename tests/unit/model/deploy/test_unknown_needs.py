"""What a newer manager made is left alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rig.builders.observations import daemon_set, observation, pod, running, schedext
from rig.builders.plans import carried_out, make_plan
from rig.builders.reports import attached, sight
from schedkit.model.api.daemonset import DaemonSet, DaemonSetAnnotations
from schedkit.model.api.schedext import SchedExt, SchedExtStatus
from schedkit.model.deploy.observation import Observation, asks_the_same, is_written_the_same
from schedkit.model.deploy.plan import CreateDaemonSet, DeleteDaemonSet, PatchDaemonSet, decide
from schedkit.model.deploy.unknown_needs import unknown_needs
from schedkit.model.report.plan import WriteStatus

OTHER = {"sched": "ghcr.io/schedkit/scx_lavd:v1"}


def seen(asked: SchedExt, made: DaemonSet | None) -> Observation:
    """A SchedExt whose pod runs on one node, if it has a DaemonSet."""
    pods = (pod("node-1", running(60)),) if made else ()
    return observation(asked, *pods, daemon_set=made)


def with_needs(made: DaemonSet, words: str) -> DaemonSet:
    meta = msgspec.structs.replace(made.metadata, annotations=DaemonSetAnnotations(needs=words))
    return msgspec.structs.replace(made, metadata=meta)


def conditions(at: Observation) -> dict[str, tuple[str, str]]:
    (written,) = [each for each in make_plan(at).actions if isinstance(each, WriteStatus)]
    return {each.type: (each.status, each.reason) for each in written.status.conditions}


@pytest.mark.parametrize("words", ["claims", "claims,pools", " pools ,\tclaims ", "x" * 1000, "\u202e"])
@pytest.mark.parametrize(
    ("asked", "is_noted", "write"),
    [
        pytest.param({}, None, CreateDaemonSet, id="it would be created"),
        pytest.param(OTHER, False, PatchDaemonSet, id="it would be changed"),
        pytest.param(OTHER, True, PatchDaemonSet, id="it would be changed, by its DaemonSet's word"),
        pytest.param({"suspend": True}, False, DeleteDaemonSet, id="it would be deleted"),
        pytest.param(
            {"suspend": True}, True, DeleteDaemonSet, id="it would be deleted, by its DaemonSet's word"
        ),
    ],
)
def test_nothing_is_written_for_what_needs_a_newer_manager(
    words: str, asked: dict[str, Any], is_noted: bool | None, write: type
) -> None:
    """`is_noted`: whether the DaemonSet carries the words, and not the SchedExt; None: there is none."""
    made = None if is_noted is None else daemon_set(schedext())
    noted = with_needs(made, words) if made and is_noted else made

    assert isinstance(decide(seen(schedext(**asked), made)).write, write)
    assert decide(seen(schedext(needs="" if is_noted else words, **asked), noted)).write is None


def test_it_is_said_what_to_do_and_what_runs_is_still_counted() -> None:
    at = seen(schedext(needs="claims", suspend=True), daemon_set(schedext()))

    assert conditions(at) == {
        "Accepted": ("False", "NewerManagerNeeded"),
        "Verified": ("Unknown", "VerificationOff"),
        "Deployed": ("Unknown", "NewerManagerNeeded"),
        "Progressing": ("False", "Blocked"),
        "Ready": ("Unknown", "NewerManagerNeeded"),
    }
    (written,) = [
        each for each in make_plan(at, {"node-1": sight(attached())}).actions if isinstance(each, WriteStatus)
    ]
    accepted, ready = written.status.conditions[0], written.status.conditions[-1]
    assert "does not know claims: nothing is changed; upgrade the operator" in accepted.message
    assert (ready.status, ready.reason) == ("Unknown", "NewerManagerNeeded")
    assert written.status.nodes is not None
    assert (written.status.nodes.desired, written.status.nodes.attached) == (1, 1)


def test_many_long_words_leave_room_for_what_to_do() -> None:
    words = " ".join(f"{number}" * 70 for number in range(100, 110))
    (written, *_) = make_plan(seen(schedext(needs=words), None)).actions

    assert isinstance(written, WriteStatus)
    assert written.status.conditions[0].message.endswith(
        "and 7 more: nothing is changed; upgrade the operator"
    )


def test_a_word_that_is_known_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.model.deploy.unknown_needs.KNOWN", frozenset({"claims"}))

    assert unknown_needs(seen(schedext(needs="claims"), None)) == ()
    assert unknown_needs(seen(schedext(needs="claims pools"), None)) == ("pools",)


def test_the_daemon_set_of_somebody_else_needs_nothing_of_us() -> None:
    theirs = with_needs(daemon_set(schedext("other")), "claims")

    assert unknown_needs(seen(schedext(), theirs)) == ()


def test_a_second_look_writes_nothing() -> None:
    at = seen(schedext(needs="claims"), None)

    assert make_plan(carried_out(at, make_plan(at).actions)).actions == ()


def test_the_annotation_is_seen_when_it_comes_and_goes() -> None:
    one, other = schedext(), schedext(needs="claims")
    made = daemon_set(one)

    assert asks_the_same(one, msgspec.structs.replace(one, status=SchedExtStatus()))
    assert not asks_the_same(one, other)
    assert not asks_the_same(other, one)
    assert not is_written_the_same(made, with_needs(made, "claims"))


def test_it_is_decoded_from_among_other_annotations() -> None:
    served = b'{"metadata": {"annotations": {"a": "b", "sked.schedkit.io/needs": "claims"}}}'

    assert msgspec.json.decode(served, type=SchedExt).metadata.annotations.needs == "claims"
    assert msgspec.json.decode(served, type=DaemonSet).metadata.annotations.needs == "claims"
