"""Whole changes, played on a machine in memory; their transcripts are golden files, readable without code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rig.builders.transcripts import ATTACHING_S, Transcript
from rig.runtimes.fakeruntime import Program
from schedkit.model.host.actions import Plan
from schedkit.model.host.containers import Container
from schedkit.model.host.processes import Hold
from schedkit.model.host.switch_reset_plans import Wanted, plan_switch
from schedkit.model.kernel.log import ExitKind
from schedkit.schedctl import wiring
from schedkit.schedctl.change import snapshot
from schedkit.schedctl.change.player import play
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.verbs.machine import supervise

GOLDEN = Path(__file__).parents[2] / "golden/transcripts"


def switch(transcript: Transcript, program: Program) -> None:
    """Switch to `scx_lavd`, whose program is given."""
    machine = transcript.new("scx_lavd", program)
    seen = snapshot.look(machine.kernel, machine.runtimes, is_thorough=True)
    plan = plan_switch(seen, Wanted("podman", "sha256:1", "{}"))
    assert isinstance(plan, Plan)
    transcript.write_plan(plan)
    try:
        outcome = play(plan, machine)
    except Problem as problem:
        transcript.write("", *problem.as_text().splitlines())
    else:
        assert outcome.gap
        transcript.write("", f"the kernel ran its own scheduler for {outcome.gap.seconds:.2f} s")
    transcript.write_end()


def switch_that_succeeds() -> Transcript:
    transcript = Transcript("schedctl switch scx_lavd, while scx_fifo runs")
    switch(transcript, transcript.attaching("lavd"))
    return transcript


def switch_with_its_way_back() -> Transcript:
    transcript = Transcript(
        "schedctl switch scx_lavd, whose program ends before it is attached, while scx_fifo runs"
    )
    switch(transcript, Program(complains=("libbpf: failed to load object",), code=1))
    return transcript


def switch_that_the_kernel_undoes() -> Transcript:
    transcript = Transcript("schedctl switch scx_lavd, which the kernel ejects at once, while scx_fifo runs")

    def stall(container: Container) -> None:
        transcript.kernel.attach(container.pid or 0, "lavd")
        transcript.kernel.throw_out(ExitKind.ERROR_STALL)

    switch(transcript, Program(begins=stall, code=0))
    return transcript


def switch_from_one_whose_link_is_pinned() -> Transcript:
    transcript = Transcript("schedctl switch scx_lavd, while scx_fifo runs, whose link is pinned as well")
    pin(transcript)
    switch(transcript, transcript.attaching("lavd"))
    return transcript


def switch_back_to_one_whose_link_is_pinned() -> Transcript:
    transcript = Transcript(
        "schedctl switch scx_lavd, whose program ends at once, while scx_fifo runs, whose link is pinned"
    )
    pin(transcript)
    switch(transcript, Program(complains=("libbpf: failed to load object",), code=1))
    return transcript


def pin(transcript: Transcript) -> None:
    """Let the attached scheduler stay in the kernel when its process is gone."""
    transcript.kernel.let_go()
    transcript.kernel.attach(transcript.old.pid or 0, "fifo", Hold.NOBODY)


def stay(transcript: Transcript) -> None:
    """Stay with `scx_fifo` until its end."""
    runtimes = {"podman": transcript.runtime}
    supervision = supervise.find(
        transcript.kernel,
        lambda: runtimes,
        "podman",
        None,
        10,
        lambda line: transcript.note("schedctl", line),
    )
    ending = supervise.stay(supervision)
    try:
        answer = supervise.conclude(supervision.container, ending)
    except Problem as problem:
        transcript.write("", *problem.as_text().splitlines(), f"exit code {problem.exit_code}")
    else:
        transcript.write("", *map(str, answer.text), "exit code 0")
    transcript.write_end()


def supervision_through_an_eject_and_a_restart() -> Transcript:
    transcript = Transcript(
        "schedctl supervise: scx_fifo is ejected and attaches itself again; later it stalls for good"
    )
    transcript.kernel.after(30, lambda: transcript.kernel.throw_out(ExitKind.UNREG_KERN))
    transcript.kernel.after(33, lambda: transcript.kernel.attach(transcript.old.pid or 0, "fifo"))
    transcript.kernel.after(300, lambda: transcript.kernel.throw_out(ExitKind.ERROR_STALL))
    stay(transcript)
    return transcript


def supervision_until_somebody_stops_it() -> Transcript:
    transcript = Transcript("schedctl supervise: somebody stops scx_fifo with `podman stop`")
    transcript.kernel.after(30, lambda: transcript.runtime.stop("scx_fifo", grace_s=10))
    stay(transcript)
    return transcript


def supervision_through_a_switch_that_fails() -> Transcript:
    transcript = Transcript("schedctl supervise: somebody's switch fails, and brings scx_fifo back")

    def begin() -> None:
        transcript.note("somebody", "switches to another, which fails, and starts scx_fifo again")
        transcript.runtime.stop("scx_fifo", grace_s=10)
        transcript.runtime.hooks["inspect scx_fifo"] = go_back

    def go_back() -> None:
        """Before our turn comes: a supervisor waits until nobody changes anything."""
        del transcript.runtime.hooks["inspect scx_fifo"]
        transcript.runtime.start("scx_fifo")
        transcript.kernel.sleep(ATTACHING_S)

    transcript.kernel.after(30, begin)
    transcript.kernel.after(120, lambda: transcript.runtime.stop("scx_fifo", grace_s=10))
    stay(transcript)
    return transcript


@pytest.mark.parametrize(
    "played",
    [
        switch_that_succeeds,
        switch_with_its_way_back,
        switch_that_the_kernel_undoes,
        switch_from_one_whose_link_is_pinned,
        switch_back_to_one_whose_link_is_pinned,
        supervision_through_an_eject_and_a_restart,
        supervision_through_a_switch_that_fails,
        supervision_until_somebody_stops_it,
    ],
)
def test_a_change_is_played_as_its_transcript_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, played: Callable[[], Transcript]
) -> None:
    monkeypatch.setattr(wiring, "LOCK", tmp_path / "lock")

    text = str(played())

    assert text == (GOLDEN / f"{played.__name__.replace('_', '-')}.txt").read_text()


def test_what_counts_up_between_two_looks_makes_no_other_plan() -> None:
    """Before a change begins, its plan is compared with the one that was told."""
    transcript = Transcript("schedctl switch scx_lavd, and a second look at the machine")
    machine = transcript.machine()
    first, second = (snapshot.look(machine.kernel, machine.runtimes, is_thorough=True) for _ in range(2))

    plans = [plan_switch(seen, Wanted("podman", "sha256:1", "{}")) for seen in (first, second)]

    assert first.kernel != second.kernel
    assert isinstance(plans[0], Plan)
    assert plans[0] == plans[1]
