"""What a manager does and says in a whole story, played over its decisions, beside a transcript to read."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, assert_never

import msgspec

from rig.builders.observations import MOVED, NOW, SIGNED, SIGNED_IMAGE, pod, schedext, trusted
from rig.builders.plans import carried_out, make_plan
from schedkit.model.api.conditions import Reason
from schedkit.model.api.daemonset import DaemonSet, DaemonSetStatus
from schedkit.model.api.pods import ContainerState, ContainerStatus, Pod, Running
from schedkit.model.api.schedext import SchedExtStatus
from schedkit.model.deploy.admission import question_of
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import CreateDaemonSet, DeleteDaemonSet, PatchDaemonSet, decide
from schedkit.model.deploy.render import CONTAINER
from schedkit.model.deploy.verdicts import Distrusted, Pace, Trusted, Undecided, Verdict, VerdictBook
from schedkit.model.report.plan import Action, RecordEvent, WriteStatus
from schedkit.model.trust.rules import TrustMode, built_in_rules
from schedkit.oci.policy.patterns import Re2Pattern

TRANSCRIPTS = Path(__file__).parents[2] / "golden/transcripts"
KEY = "default/scx"
NODE = "node-1"
LEGEND = (
    "One SchedExt, one node, and rules that say no more than `mode: enforce`. The time is in minutes and",
    "seconds. `writes` is a condition in the status: its type and answer, its reason and its message. Only",
    "what changed is shown. Digests are cut short.",
)


class Story:
    """One SchedExt on one node, under `enforce`, with a clock that the story moves."""

    def __init__(self, title: str) -> None:
        self._lines = [title, "", *LEGEND, ""]
        self._at_s = 0
        self._is_dated = False  # whether the time is on the page already
        self._book: VerdictBook[str] = VerdictBook()
        self._seen = Observation(
            schedext("scx", sched=SIGNED_IMAGE), NOW, rules=built_in_rules(TrustMode.ENFORCE, Re2Pattern)
        )

    @property
    def transcript(self) -> str:
        return "\n".join(self._lines) + "\n"

    # What others do

    def at(self, minutes: int, seconds: int = 0) -> None:
        self._at_s, self._is_dated = 60 * minutes + seconds, False

    def user(self, words: str, **spec: Any) -> None:  # noqa: ANN401 - fields of a spec
        """Writes the SchedExt."""
        old = self._seen.schedext
        generation = old.metadata.generation + bool(spec)
        meta = msgspec.structs.replace(old.metadata, generation=generation)
        new = msgspec.structs.replace(old, metadata=meta, spec=msgspec.structs.replace(old.spec, **spec))
        self._seen = replace(self._seen, schedext=new)
        self._say("the user", words)
        self._settle()

    def verifier(self, found: Verdict) -> None:
        """Answers what it was asked."""
        question = self._book.asked[KEY]
        assert self._book.is_due(question, self._at_s), "nobody would ask it now"
        pace = Pace(interval_s=600)
        self._book = self._book.learning(question, found, now=self._at_s, pace=pace, retry_s=15)
        until = self._book.known[question].good_until
        again = "never looks again" if until == float("inf") else f"looks again at {_time(until)}"
        self._say("the verifier", f"finds: {_found(found)}; it {again}")
        self._settle()

    def node(self) -> None:
        """Runs what the DaemonSet asks for, as its controller and the kubelet see to."""
        there = self._seen.daemon_set
        assert there is not None
        started = self._pod(there)
        status = DaemonSetStatus(
            observed_generation=there.metadata.generation,
            desired_number_scheduled=1,
            updated_number_scheduled=1,
        )
        rolled_out = msgspec.structs.replace(there, status=status)
        self._seen = replace(self._seen, daemon_set=rolled_out, pods=(started,))
        self._say(NODE, f"starts a pod with {started.spec.containers[0].image}")
        self._settle()

    def time_passes(self) -> None:
        """Nothing happens, and the manager looks again because it said it would."""
        self._say("nobody", "does anything")
        self._settle()

    def _pod(self, owner: DaemonSet) -> Pod:
        image = owner.spec.template.spec.containers[0].image
        runs = ContainerStatus(
            name=CONTAINER, image_id=image, state=ContainerState(running=Running(started_at=self._now))
        )
        made = pod(NODE, runs, image=image)
        (by,) = made.metadata.owner_references
        meta = msgspec.structs.replace(
            made.metadata, owner_references=(msgspec.structs.replace(by, uid=owner.metadata.uid),)
        )
        return msgspec.structs.replace(made, metadata=meta)

    # What the manager does

    @property
    def _now(self) -> datetime:
        return NOW + timedelta(seconds=self._at_s)

    def _settle(self) -> None:
        """Look, decide and act until there is nothing to do."""
        before = len(self._lines)
        while actions := self._reconcile():
            for action in actions:
                self._tell(action)
            self._tell_events([each for each in actions if isinstance(each, RecordEvent)])
            self._seen = carried_out(self._seen, actions)
        if len(self._lines) == before:
            self._say("sked", "writes nothing")

    def _reconcile(self) -> tuple[Action, ...]:
        self._look()
        question = decide(self._seen).question
        if question != self._book.asked.get(KEY):
            self._book = self._book.asking(KEY, question)
            if question is not None:
                bound = f", which pods are bound to as {question.pinned}" if question.pinned else ""
                self._say("sked", f"asks the verifier about {question.image}{bound}")
        return make_plan(self._seen).actions

    def _look(self) -> None:
        ruled = replace(self._seen, now=self._now)
        question = question_of(ruled)
        assert question is not None
        verdict = self._book.verdict(KEY, question)
        vouched = self._book.vouched_for(KEY, question.policy)
        self._seen = replace(ruled, verdict=verdict, vouched=vouched)

    # What is written down

    def _tell(self, action: Action) -> None:
        match action:
            case CreateDaemonSet(body):
                image = body.spec.template.spec.containers[0].image
                self._say("sked", f"creates the DaemonSet, with the image {image}")
            case PatchDaemonSet(operations=operations):
                changed = (f"{each.path.rpartition('/')[2]} {_value(each.value)}" for each in operations)
                self._say("sked", f"patches the DaemonSet: {', '.join(changed)}")
            case DeleteDaemonSet():
                self._say("sked", "deletes the DaemonSet")
            case WriteStatus(status=status):
                self._tell_status(self._seen.schedext.status or SchedExtStatus(), status)
            case RecordEvent():
                pass  # they are told together
            case _:
                assert_never(action)

    def _tell_events(self, events: list[RecordEvent]) -> None:
        named = [f"{each.reason} (a warning)" if each.is_warning else each.reason for each in events]
        if named:
            self._say("sked", f"records events: {', '.join(named)}")

    def _tell_status(self, before: SchedExtStatus, after: SchedExtStatus) -> None:
        known = {each.type: (each.status, each.reason, each.message) for each in before.conditions}
        for each in after.conditions:
            if known.get(each.type) != (each.status, each.reason, each.message):
                self._say("sked", f"writes {each.type} {each.status}, {each.reason}: {each.message}")
        if after.signer != before.signer:
            self._say("sked", f"writes the signer: {after.signer or 'not known'}")

    def _say(self, who: str, words: str) -> None:
        date = "" if self._is_dated else _time(self._at_s)
        self._is_dated = True
        short = re.sub(r"(sha256:[0-9a-f]{4})[0-9a-f]{60}", r"\1…", words)
        self._lines.append(f"{date:>6}  {who:<12}  {short}")


def _time(at_s: float) -> str:
    return f"{at_s // 60:.0f}:{at_s % 60:02.0f}"


def _value(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _found(found: Verdict) -> str:
    match found:
        case Trusted(verified=verified, current=current):
            means = "the name means it" if current == verified.digest else f"the name means {current} by now"
            return f"{verified.digest} was signed by {verified.signer}, and {means}"
        case Distrusted():
            return f"nobody who is trusted signed it: {found.why}"
        case Undecided():
            return f"nothing: {found.why}"
        case _:
            assert_never(found)


def a_tag_that_moves() -> Story:
    story = Story(f"A tag that moves under enforce: {SIGNED_IMAGE}")
    first = trusted(SIGNED)
    story.user(f"creates the SchedExt with sched: {SIGNED_IMAGE}")
    story.at(0, 2)
    story.verifier(first)
    story.at(0, 5)
    story.node()
    story.at(0, 35)
    story.time_passes()
    story.at(10, 2)
    story.verifier(replace(first, current=MOVED))
    story.at(12)
    story.user("writes args: --verbose", args=("--verbose",))
    story.at(12, 5)
    story.node()
    story.at(12, 35)
    story.time_passes()
    story.at(20, 2)
    story.verifier(Undecided(Reason.REGISTRY_UNREACHABLE, "registry.example does not answer"))
    story.at(20, 17)
    story.verifier(replace(first, current=MOVED))
    story.at(25)
    story.user(f"writes sched: {SIGNED_IMAGE}@{MOVED}", sched=f"{SIGNED_IMAGE}@{MOVED}")
    story.at(25, 2)
    story.verifier(trusted(MOVED))
    story.at(25, 5)
    story.node()
    story.at(25, 35)
    story.time_passes()
    return story


def test_a_tag_that_moves_under_enforce_is_told_and_rolled_out_by_nobody_but_the_user() -> None:
    golden = TRANSCRIPTS / "sked-a-tag-that-moves-under-enforce.txt"

    assert a_tag_that_moves().transcript == golden.read_text()
