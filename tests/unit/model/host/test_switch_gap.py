"""The gap of a switch, by the kernel's log and without it."""

from __future__ import annotations

from schedkit.model.host.switch_gap import Gap, gap_us, measure_gap
from schedkit.model.kernel.log import Attachment, Exit, ExitKind, LogReading

SWITCH = LogReading(
    exits=(
        Exit("old", ExitKind.UNREG, "", "", 1, 1_000_000),
        Exit("bad", ExitKind.ERROR, "", "", 2, 1_500_000),
        Exit("new", ExitKind.UNREG, "", "", 4, 9_000_000),
    ),
    attachments=(Attachment("new", 3, 2_500_000),),
)


def test_the_gap_of_a_switch_lasts_from_the_first_end_to_the_beginning_of_what_runs() -> None:
    assert gap_us(SWITCH, "new") == 1_500_000
    assert gap_us(SWITCH, "bad") is None
    assert gap_us(SWITCH._replace(exits=SWITCH.exits[2:]), "new") is None


def test_what_the_log_says_counts_before_what_was_observed() -> None:
    assert measure_gap(SWITCH, "new", observed_s=7) == Gap(1.5, "kernel-log")
    assert measure_gap(LogReading(), "new", observed_s=7) == Gap(7, "observation")
