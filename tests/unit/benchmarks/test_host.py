"""The host benchmark's own arithmetic, and how it reads the kernel's log."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.host import courses, kernellog, report, startups, targets
from benchmarks.host.courses import PODMAN, SCHEDCTL, Attachment, Courses, Gap
from benchmarks.host.kernellog import NotToldError
from benchmarks.host.sizes import Sizes
from benchmarks.host.startups import Command
from benchmarks.host.targets import Results
from rig.base.errors import RigError

LOG = """\
6,100,1000000,-;something older
12,101,2000000,-;bench-host: begun
12,102,3000000,-;bench-host: called
6,103,4500000,-;sched_ext: BPF scheduler "rig_fifo" disabled (unregistered from user space)
6,104,5000000,-,caller=T1;sched_ext: BPF scheduler "rig_alias" enabled
12,105,7000000,-;bench-host: ended
"""


def results(
    *, help_s: float = 0.05, podman_s: float = 0.07, attaching_s: float = 1.1, gap_s: float = 2
) -> Results:
    times_s = {
        startups.INTERPRETER: [0.01, 0.01, 9.0],
        startups.HELP: [help_s],
        startups.STATUS: [0.05],
        startups.PODMAN: [podman_s],
        startups.CONTAINERD: [0.3],
    }
    attachments = [Attachment(PODMAN, 0, 1, 1), Attachment(SCHEDCTL, 3, attaching_s, 5)]
    return Results(times_s, Courses("7.0", attachments, [Gap(PODMAN, 2, 4), Gap(SCHEDCTL, gap_s, 9)]))


def missed(found: Results) -> list[str]:
    return [each.what for each in targets.compare(found) if not each.is_met]


# Targets


def test_a_run_that_keeps_every_promise_misses_none() -> None:
    assert missed(results()) == []
    assert len(targets.compare(results())) == 5


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (results(help_s=0.051), f"CPU of {startups.HELP}"),
        (results(podman_s=0.071), f"CPU of {startups.PODMAN}"),
        (results(attaching_s=1.2), "from the first call to attached, to podman run"),
        (results(gap_s=2.1), "gap of a switch, to podman stop and start"),
    ],
    ids=["help", "status", "attaching", "switching"],
)
def test_what_is_too_slow_is_missed_alone(found: Results, what: str) -> None:
    assert missed(found) == [what]


def test_what_was_not_measured_is_no_target() -> None:
    assert targets.compare(Results({})) == ()


# Reports


def test_the_text_marks_what_was_missed_and_says_what_was_not_measured() -> None:
    found = results(help_s=0.06)
    text = report.render_text(Sizes(), Results(found.startups_s, Courses("7.0", found.courses.attachments)))

    assert [line.split("  ")[1] for line in text.splitlines() if "MISSED" in line] == [
        "MISSED CPU of schedctl --help"
    ]
    assert "no `switch`" in text
    assert "30.00 x" in text  # containerd has no target, and is printed


def test_the_json_has_targets_and_every_figure() -> None:
    found = json.loads(report.render_json(Sizes(), results(gap_s=3)))

    assert [each["what"] for each in found["targets"] if not each["met"]] == missed(results(gap_s=3))
    assert found["results"]["startups_s"][startups.INTERPRETER] == [0.01, 0.01, 9.0]


# The kernel's log


def test_an_attachment_is_read_between_the_marks() -> None:
    log = kernellog.parse(LOG)

    assert courses.attachment(SCHEDCTL, log, after=100) == Attachment(SCHEDCTL, 1, 2, 5)
    assert courses.attachment(PODMAN, log, after=100) == Attachment(PODMAN, 0, 3, 5)


def test_a_gap_is_what_lies_between_the_kernels_own_words() -> None:
    assert courses.gap(SCHEDCTL, kernellog.parse(LOG), after=100) == Gap(SCHEDCTL, 0.5, 5)


def test_what_the_log_does_not_tell_is_not_made_up() -> None:
    with pytest.raises(NotToldError, match="after its record 102"):
        courses.attachment(SCHEDCTL, kernellog.parse(LOG), after=102)


# Costs of commands


def test_a_command_that_computes_costs_more_than_one_that_does_not() -> None:
    idle = Command("idle", (sys.executable, "-S", "-c", "pass"))
    busy = Command("busy", (sys.executable, "-S", "-c", "for _ in range(1_000_000): pass"))

    times = startups.take_turns([idle, busy], 1)

    assert 0 < times["idle"][0] < times["busy"][0]


def test_a_command_that_fails_is_not_measured() -> None:
    broken = Command("broken", (sys.executable, "-S", "-c", "raise SystemExit(3)"))

    with pytest.raises(RigError, match="ended with 3 instead of 0"):
        startups.cpu_s(broken, {})
