"""Exits in the kernel's log. The lines are those of 6.18 and 7.2 kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedkit.kernel import kmsg
from schedkit.model.kernel.log import (
    REASONS,
    Exit,
    ExitKind,
    LogReading,
    exits_since,
    interpret,
    last_words,
    unwanted_exits,
)

STALL = b"""\
6,811,42000000,-;sched_ext: BPF scheduler "rig_staller" enabled
3,812,45123456,-;sched_ext: BPF scheduler "rig_staller" disabled (runnable task stall)
6,813,45123460,-;virtio_net virtio0: something else happens
3,814,45123470,-;sched_ext: rig_staller: victim[458] failed to run for 2.044s
3,815,45123480,-;   scx_watchdog_workfn+0x16a/0x1f0
3,816,45123490,-;   process_one_work+0x18d/0x340
"""
SYSRQ = b"""\
4,900,50000000,-;sysrq: Disable sched_ext and revert all tasks to CFS
6,901,50000100,-;sched_ext: BPF scheduler "bpfland_1.1.4_x86_64_linux" disabled (disabled by sysrq-S)
 SUBSYSTEM=cpu
 DEVICE=+cpu:cpu0
"""
TWO_LINES = rb"""3,5,100,-;sched_ext: BPF scheduler "mini" disabled (runnable task stall)
3,6,200,-;sched_ext: mini: victim\x0a[458] failed to run for 2.044s
"""


def read(content: bytes, *, after_seq: int = -1) -> LogReading:
    return interpret(kmsg.parse(content), after_seq=after_seq)


def test_a_stall_is_read_with_the_kernels_words_about_it() -> None:
    assert read(STALL).exits == (
        Exit(
            ops="rig_staller",
            kind=ExitKind.ERROR_STALL,
            reason="runnable task stall",
            message="victim[458] failed to run for 2.044s",
            seq=812,
            time_us=45123456,
        ),
    )


def test_sysrq_is_a_humans_wish_and_no_failure() -> None:
    (end,) = read(SYSRQ).exits

    assert (end.ops, end.kind) == ("bpfland_1.1.4_x86_64_linux", ExitKind.SYSRQ)
    assert end.is_wanted_by_a_human
    assert not end.is_failure


def test_a_message_may_have_several_lines() -> None:
    (end,) = read(TWO_LINES).exits

    assert end.message == "victim\n[458] failed to run for 2.044s"


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_of_the_kernel_has_its_kind(reason: str) -> None:
    (end,) = read(f'3,1,1,-;sched_ext: BPF scheduler "x" disabled ({reason})\n'.encode()).exits

    assert end.kind is REASONS[reason]


def test_a_reason_that_we_do_not_know_keeps_its_words() -> None:
    (end,) = read(b'3,1,1,-;sched_ext: BPF scheduler "x" disabled (moon (full) in Leo)\n').exits

    assert (end.kind, end.reason) == (ExitKind.UNKNOWN, "moon (full) in Leo")


def test_a_message_of_another_scheduler_or_of_a_later_end_is_not_taken() -> None:
    log = b"""\
3,1,1,-;sched_ext: BPF scheduler "x" disabled (runtime error)
3,2,2,-;sched_ext: y: not about x
3,3,3,-;sched_ext: BPF scheduler "x" disabled (runtime error)
3,4,4,-;sched_ext: x: ops.init() failed (-19)
"""
    assert [end.message for end in read(log).exits] == ["", "ops.init() failed (-19)"]


def test_a_message_of_the_next_attachment_is_not_taken() -> None:
    log = b"""\
3,1,1,-;sched_ext: BPF scheduler "x" disabled (unregistered from user space)
6,2,2,-;sched_ext: BPF scheduler "x" enabled
3,3,3,-;sched_ext: x: a warning about what runs now
"""
    (end,) = read(log).exits

    assert end.message == ""


def test_what_a_program_writes_into_the_log_is_not_the_kernels_word() -> None:
    forged = b'11,1,1,-;sched_ext: BPF scheduler "x" disabled (disabled by sysrq-S)\n'

    assert read(forged).exits == ()
    assert read(forged.replace(b"11,", b"3,", 1)).exits != ()


def test_only_what_came_later_is_told_when_asked_so() -> None:
    log = STALL + SYSRQ

    assert [end.seq for end in read(log, after_seq=812).exits] == [901]
    assert read(log, after_seq=812).last_seq == 901


def test_other_remarks_of_sched_ext_are_kept_and_ordinary_news_is_not() -> None:
    refusal = 'Not compatible with "isolcpus=" domain isolation'

    reading = read(STALL + f"3,999,9,-;sched_ext: {refusal}\n".encode())

    assert [remark.text for remark in reading.remarks] == [refusal]


def test_last_words_are_those_of_the_last_end_or_of_the_last_of_a_name() -> None:
    log = read(STALL + SYSRQ)

    assert last_words(log) == "bpfland_1.1.4_x86_64_linux: disabled by sysrq-S"
    assert last_words(log, "rig_staller") == (
        "rig_staller: runnable task stall (victim[458] failed to run for 2.044s)"
    )
    assert last_words(log, "never_ran") == ""


SWITCH = b"""\
6,1,1000000,-;sched_ext: BPF scheduler "old" disabled (unregistered from user space)
3,2,1500000,-;sched_ext: BPF scheduler "bad" disabled (runtime error)
6,3,2500000,-;sched_ext: BPF scheduler "new" enabled
6,4,9000000,-;sched_ext: BPF scheduler "new" disabled (unregistered from user space)
"""


def test_ends_that_a_scheduler_asked_for_can_be_left_out() -> None:
    assert [end.ops for end in unwanted_exits(read(SWITCH)).exits] == ["bad"]


def test_ends_before_a_moment_can_be_left_out() -> None:
    log = read(STALL + SYSRQ)

    assert [end.seq for end in exits_since(log, 45123457).exits] == [901]
    assert exits_since(log, 0) == log


def test_a_log_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(b"6,1,1,-;padding\n" * 10_000 + STALL)

    reading = kmsg.read(tmp_path)

    assert ([end.seq for end in reading.exits], reading.problem) == ([812], "")


def test_a_log_that_nobody_may_read_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    assert "run as root" in kmsg.read(tmp_path).problem
