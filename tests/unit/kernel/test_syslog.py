"""The kernel's log as syslog(2) gives it: text alone, of which each look is laid over the one before."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.kernel import syslog
from schedkit.kernel.syslog import Line, Syslog, assembled, parse, place_after
from schedkit.model.kernel.log import Exit, ExitKind, LogReading

BOOT = "<5>[    0.000000] Linux version 7.2.0 (build@example)"
ENABLED = '<6>[   42.000000] sched_ext: BPF scheduler "rig_staller" enabled'
DISABLED = '<3>[   45.123456] sched_ext: BPF scheduler "rig_staller" disabled (runnable task stall)'
WORDS = "<3>[   45.123470] sched_ext: rig_staller: victim[458] failed to run for 2.044s"
FORGED = 'sched_ext: BPF scheduler "other" disabled (runnable task stall)'


class Ring:
    """The kernel's log, which forgets its beginning."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.sizes: list[int | None] = []
        self.refusal: OSError | None = None

    def read(self, size: int | None) -> bytes:
        if self.refusal:
            raise self.refusal
        self.sizes.append(size)
        kept: list[bytes] = []
        for line in reversed(self.lines):
            kept.insert(0, f"{line}\n".encode())
            if size is not None and sum(map(len, kept)) > size:
                return b"".join(kept[1:])
        return b"".join(kept)


def noise(first: int, count: int) -> list[str]:
    return [
        f"<6>[{each:5d}.000000] virtio_net virtio0: packet {each}" for each in range(first, first + count)
    ]


def without_times(lines: Sequence[str]) -> list[str]:
    return [line[:3] + line.partition("] ")[2] for line in lines]


def ends(reading: LogReading) -> list[tuple[str, str]]:
    return [(each.ops, each.message) for each in reading.exits]


# Lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("<6>[    1.000002] text", Line(1_000_002, "text"), id="with a time"),
        pytest.param("<6>[123456.000002] text", Line(123456000002, "text"), id="of a machine that is old"),
        pytest.param("<6>text", Line(None, "text"), id="printk.time=0"),
        pytest.param("<4>[    1.000002]    main+0x1", Line(1_000_002, "   main+0x1"), id="of a stack"),
        pytest.param("<4>   main+0x1", Line(None, "   main+0x1"), id="of a stack, printk.time=0"),
        pytest.param("<6>[    1.000002][    T1] text", Line(1_000_002, "text"), id="with the task"),
        pytest.param("<6>[    1.000002][   C12] text", Line(1_000_002, "text"), id="with the CPU"),
        pytest.param("<6>[   T77] text", Line(None, "text"), id="with the task alone"),
        pytest.param("<6>[drm] text", Line(None, "[drm] text"), id="a word in brackets is the kernel's own"),
        pytest.param("<6>[    1.000002] ", Line(1_000_002, ""), id="an empty line"),
        pytest.param("<7>debug", Line(None, "debug"), id="the least important of the kernel's"),
    ],
)
def test_a_line_is_read_as_this_kernel_writes_it(line: str, expected: Line) -> None:
    assert parse(f"{line}\n".encode()) == [expected]


@pytest.mark.parametrize(
    "words", ["[    9.000000] y", "[    T9] y", "[    9.000000][    T9] y", "[    9.000000]y"]
)
@pytest.mark.parametrize(
    ("before", "time_us"),
    [("", None), ("[    1.000002] ", 1_000_002), ("[    T1] ", None), ("[    1.000002][    T1] ", 1_000_002)],
    ids=["nothing", "a time", "a task", "a time and a task"],
)
def test_what_stands_before_texts_is_the_same_for_all_of_them(
    words: str, before: str, time_us: int | None
) -> None:
    """The kernel decides for a whole reading: what a text begins with beyond that are words of strangers."""
    content = f"<3>{before}tmpfs: Unknown parameter 'x\n<3>{before}{words}\n<12>{before}of a program\n"

    assert parse(content.encode()) == [
        Line(time_us, "tmpfs: Unknown parameter 'x"),
        Line(time_us, words),
    ]


@pytest.mark.parametrize("rest", ["1.000002] text", "] text", ">[    1.000002] text", "[    1.000002] text"])
def test_a_first_line_that_was_cut_off_takes_the_times_of_no_other(rest: str) -> None:
    assert parse(f"{rest}\n<6>[    2.000000] next\n".encode()) == [Line(2_000_000, "next")]


def test_digits_of_other_scripts_are_no_time() -> None:
    one, zero = "\N{ARABIC-INDIC DIGIT ONE}", "\N{ARABIC-INDIC DIGIT ZERO}"
    text = f"[    {one}.{6 * zero}] text"

    assert parse(f"<6>{text}\n".encode()) == [Line(None, text)]


@pytest.mark.parametrize("level", [8, 12, 30, 191])
def test_what_a_program_writes_into_the_log_is_left_out(level: int) -> None:
    assert parse(f"<{level}>[    1.000000] {FORGED}\n<3>[    2.000000] real\n".encode()) == [
        Line(2_000_000, "real")
    ]


@pytest.mark.parametrize("end", ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_a_program_cannot_begin_a_line_of_the_kernels_own(end: str) -> None:
    """The kernel puts its prefix after line feeds alone; all else stands in the text as it was written."""
    content = f"<12>[    1.000000] harmless{end}<3>[    1.000000] {FORGED}\n"

    assert parse(content.encode()) == []


@given(content=st.binary() | st.text().map(str.encode))
def test_no_content_makes_the_parser_raise(content: bytes) -> None:
    assembled(parse(content))


# Messages


def test_an_end_is_read_with_the_kernels_words_and_its_time() -> None:
    reading = Syslog(Ring(BOOT, ENABLED, DISABLED, *noise(45, 1), WORDS).read).look()

    assert reading.exits == (
        Exit(
            "rig_staller",
            ExitKind.ERROR_STALL,
            "runnable task stall",
            "victim[458] failed to run for 2.044s",
            2,
            45_123_456,
        ),
    )
    assert [each.ops for each in reading.attachments] == ["rig_staller"]
    assert (reading.problem, reading.lost_before_us) == ("", None)


def test_a_log_without_times_has_the_same_ends() -> None:
    reading = Syslog(Ring(*without_times([BOOT, ENABLED, DISABLED, WORDS])).read).look()

    assert ends(reading) == [("rig_staller", "victim[458] failed to run for 2.044s")]
    assert [each.time_us for each in reading.exits] == [0]


@pytest.mark.parametrize(
    "prefix",
    ["<3>[   45.123470] sched_ext: rig_staller: it is over", "<3>[   45.123470] tmpfs: Unknown parameter 'x"],
    ids=["of the scheduler", "of any other message with words of strangers"],
)
def test_the_second_line_of_a_message_is_no_end(prefix: str) -> None:
    log = Ring(BOOT, ENABLED, DISABLED, prefix, f"<3>[   45.123470] {FORGED}", f"<3>[   45.123470] {FORGED}")

    assert [ops for ops, _ in ends(Syslog(log.read).look())] == ["rig_staller"]


def test_a_message_with_two_lines_is_one_message() -> None:
    first, _, second = WORDS.partition("[458]")
    log = Ring(BOOT, DISABLED, first, f"<3>[   45.123470] [458]{second}")

    assert ends(Syslog(log.read).look()) == [("rig_staller", "victim\n[458] failed to run for 2.044s")]


def test_words_in_the_same_microsecond_as_the_end_are_a_message_of_their_own() -> None:
    log = Ring(BOOT, ENABLED, DISABLED, WORDS.replace("45.123470", "45.123456"))

    assert ends(Syslog(log.read).look()) == [("rig_staller", "victim[458] failed to run for 2.044s")]


# One look after the other


def test_what_was_seen_stays_and_what_is_new_is_added_with_a_later_number() -> None:
    log = Ring(BOOT, ENABLED, DISABLED, WORDS)
    watched = Syslog(log.read)
    before = watched.look().exits
    log.lines += ['<6>[   50.000000] sched_ext: BPF scheduler "mini" disabled (unregistered from user space)']

    after = watched.look().exits

    assert after[:1] == before
    assert (after[1].ops, after[1].kind) == ("mini", ExitKind.UNREG)
    assert after[1].seq > before[0].seq


def test_nothing_new_costs_the_logs_end_alone_and_changes_nothing() -> None:
    log = Ring(BOOT, *noise(1, 2000), DISABLED, WORDS)
    watched = Syslog(log.read)

    readings = [watched.look() for _ in range(3)]

    assert readings[0] == readings[1] == readings[2]
    assert log.sizes[0] is None
    assert None not in log.sizes[1:]


def test_the_words_about_an_end_may_come_with_the_next_look() -> None:
    log = Ring(BOOT, ENABLED, DISABLED)
    watched = Syslog(log.read)
    assert ends(watched.look()) == [("rig_staller", "")]
    log.lines.append(WORDS)

    assert ends(watched.look()) == [("rig_staller", "victim[458] failed to run for 2.044s")]


@pytest.mark.parametrize("has_times", [True, False])
def test_a_ring_that_forgets_its_beginning_loses_nothing_that_was_seen(has_times: bool) -> None:
    def said(lines: list[str]) -> list[str]:
        return lines if has_times else without_times(lines)

    log = Ring(*said([BOOT, *noise(1, 50), DISABLED, WORDS, *noise(50, 50)]))
    watched = Syslog(log.read)
    before = watched.look()
    log.lines = [*log.lines[-20:], *said(noise(100, 30))]

    assert watched.look() == before


def test_more_lines_than_the_end_holds_are_found_in_the_whole() -> None:
    log = Ring(BOOT, *noise(1, 100))
    watched = Syslog(log.read)
    watched.look()
    log.lines += [DISABLED, WORDS, *noise(101, 3000)]

    reading = watched.look()

    assert ends(reading) == [("rig_staller", "victim[458] failed to run for 2.044s")]
    assert reading.lost_before_us is None
    assert log.sizes[-1] is None


def test_two_looks_that_do_not_meet_have_lost_something() -> None:
    log = Ring(BOOT, *noise(1, 100))
    watched = Syslog(log.read)
    watched.look()
    log.lines = [*noise(7000, 50), DISABLED, WORDS]

    assert watched.look().lost_before_us == 7_000_000_000
    assert watched.look().lost_before_us is None


def test_lines_that_say_the_same_at_different_times_are_different() -> None:
    log = Ring(BOOT, *noise(1, 20))
    watched = Syslog(log.read)
    watched.look()
    log.lines = [line.replace("[    ", "[  90") for line in noise(1, 9)]

    assert watched.look().lost_before_us is not None


def test_a_few_equal_lines_without_times_are_no_proof_that_two_looks_meet() -> None:
    log = Ring(*without_times([BOOT, *noise(1, 20), "<6>[    1.000000] usb 1-1: device gone"]))
    watched = Syslog(log.read)
    watched.look()
    log.lines = without_times(["<6>[    1.000000] usb 1-1: device gone", *noise(500, 30), DISABLED])

    reading = watched.look()

    assert reading.lost_before_us == 0
    assert ends(reading) == [("rig_staller", "")]


def test_two_equal_ends_in_a_log_without_times_are_two() -> None:
    cycle = without_times([ENABLED, DISABLED, WORDS])
    log = Ring(*without_times([BOOT, *noise(1, 20)]), *cycle)
    watched = Syslog(log.read)
    assert len(watched.look().exits) == 1
    log.lines += cycle

    assert len(watched.look().exits) == 2


@pytest.mark.parametrize(
    ("first", "lost"),
    [
        pytest.param(BOOT, None, id="a log that begins with the boot has lost nothing"),
        pytest.param("<6>Linux version 7.2.0", None, id="without times as well"),
        pytest.param("<6>Booting Linux on physical CPU 0x0", None, id="and on arm64"),
        pytest.param("<6>[ 7000.000000] usb 1-1: new device", 7_000_000_000, id="one that does not has"),
        pytest.param("<6>usb 1-1: new device", 0, id="nobody knows when, without times"),
    ],
)
def test_the_first_look_says_what_was_lost_before_it(first: str, lost: int | None) -> None:
    log = Ring(first, *([DISABLED] if "000000]" in first else without_times([DISABLED])))

    assert Syslog(log.read).look().lost_before_us == lost


def test_a_log_that_was_cleared_is_not_whole_and_goes_on_from_there() -> None:
    log = Ring(BOOT, ENABLED)
    watched = Syslog(log.read)
    watched.look()
    log.lines = []
    assert watched.look().lost_before_us == 0
    log.lines = [DISABLED, WORDS]

    reading = watched.look()

    assert len(reading.exits) == 1
    assert reading.lost_before_us is None


def test_a_log_that_may_not_be_read_says_what_is_needed_and_what_is_known_stays() -> None:
    log = Ring(BOOT, ENABLED, DISABLED, WORDS)
    watched = Syslog(log.read)
    known = watched.look().exits
    log.refusal = OSError(errno.EPERM, os.strerror(errno.EPERM))
    denied = watched.look()
    log.refusal = None

    assert denied.exits == known
    assert denied.problem == (
        "the kernel's log cannot be read (Operation not permitted): CAP_SYSLOG is needed"
    )
    assert watched.look() == denied._replace(problem="")


def test_the_real_log_is_read_or_the_refusal_is_an_oserror() -> None:
    try:
        content = syslog.read_end(4096)
    except OSError as error:
        assert error.errno in {errno.EPERM, errno.ENOSYS}  # noqa: PT017 - either is right
    else:
        assert len(content) <= 4096


# Laying one look over another


@given(data=st.data(), has_times=st.booleans())
def test_what_is_new_is_found_wherever_the_ring_was_cut(data: st.DataObject, has_times: bool) -> None:
    """With times for any lines; without, for lines that do not repeat themselves."""
    texts = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=40))
    log = [Line(at, text) if has_times else Line(None, f"{at}") for at, text in enumerate(texts)]
    seen = data.draw(st.integers(1, len(log)))
    forgotten = data.draw(st.integers(0, max(0, seen - 8)))

    place = place_after(log[:seen], log[forgotten:])

    assert place == seen - forgotten


def test_whoever_saw_nothing_has_everything_new() -> None:
    assert place_after((), [Line(1, "a")]) == 0
