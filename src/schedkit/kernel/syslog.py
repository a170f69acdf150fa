"""The kernel's log by syslog(2): what a container may read that is not privileged, with CAP_SYSLOG alone.

It gives text without numbers, and only ever its end. So each look is laid over the one before; where they
do not meet, lines between them are lost, and that is said. Nothing is cleared: others read the same log.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from schedkit.model.kernel.log import (
    PREFIX,
    LogReading,
    Record,
    interpret,
    is_about_a_change,
    is_the_kernels_own,
)

_READ_ALL, _SIZE_BUFFER = 3, 10
_TIME = r"\[ *(?P<seconds>\d{1,12})\.(?P<micros>\d{6})\]"
_CALLER = r"\[ *[TC]\d{1,10}\]"  # of kernels that log it
_LINE = re.compile(r"<(?P<level>\d{1,10})>(?P<rest>.*)", re.ASCII)
# what may stand before a text, with the space that ends it: others are its own, those of a stack have some
_FORMS = tuple(
    re.compile(rf"{before}(?P<text>.*)", re.ASCII)
    for before in (f"{_TIME}{_CALLER} ", f"{_TIME} ", f"{_CALLER} ", "")
)
_TAIL = 32 << 10  # bytes: what is looked at when nothing much is expected to have happened
_MAX_SIZE = 8 << 20
_KEPT_LINES = 400  # of the last look: the next one is laid over them
_KEPT_RECORDS = 512  # of sched_ext
# without times, lines repeat themselves: so many must be the same before two looks are known to meet
_MIN_OVERLAP = 8
_FIRST_WORDS = ("Linux version ", "Booting Linux on ")  # of every boot, on the image's architectures


class Line(NamedTuple):
    """A line of the kernel's own, whole or a part of a message with several."""

    time_us: int | None  # since boot; None: this kernel logs without times
    text: str


class SyslogError(OSError):
    """The log cannot be read."""


Reader = Callable[[int | None], bytes]
"""The end of the log, of that many bytes at most; None: all of it. Raises `OSError`."""


def read_end(size: int | None) -> bytes:
    """As the kernel has it now; needs CAP_SYSLOG."""
    wanted = size or min(_MAX_SIZE, 2 * _klogctl(_SIZE_BUFFER, None, 0))  # with a time before each line
    buffer = ctypes.create_string_buffer(wanted)
    length = _klogctl(_READ_ALL, buffer, wanted)
    return buffer.raw[:length]


def _klogctl(action: int, buffer: ctypes.Array[ctypes.c_char] | None, size: int) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).klogctl(action, buffer, size)
    if result < 0:
        raise SyslogError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Syslog:
    """What all looks together have shown about sched_ext. The first shows what happened before."""

    def __init__(self, read: Reader = read_end) -> None:
        self._read = read
        self._last: tuple[Line, ...] | None = None  # None: there was no look yet
        self._records: deque[Record] = deque(maxlen=_KEPT_RECORDS)
        self._seq = 0

    def look(self) -> LogReading:
        """Everything about sched_ext that was ever seen; `problem`: the log cannot be read now."""
        try:
            lines, lost_before_us = self._new_lines()
        except OSError as error:
            return interpret(tuple(self._records))._replace(
                problem=f"the kernel's log cannot be read ({error.strerror}): CAP_SYSLOG is needed"
            )
        for record in assembled(lines):
            if record.text.startswith(PREFIX):
                self._seq += 1
                self._records.append(record._replace(seq=self._seq))
        return interpret(tuple(self._records))._replace(lost_before_us=lost_before_us)

    def _new_lines(self) -> tuple[Sequence[Line], int | None]:
        """The lines since the last look, and before which time others were lost; None: these are all."""
        for size in (None,) if self._last is None else (_TAIL, None):
            lines = parse(self._read(size))
            beginning = _beginning(lines) if self._last is None else place_after(self._last, lines)
            if beginning is not None:
                break
        self._last = tuple(lines[-_KEPT_LINES:])
        if beginning is not None:
            return lines[beginning:], None
        return lines, (lines[0].time_us or 0) if lines else 0


def _beginning(lines: Sequence[Line]) -> int | None:
    """Where what is new begins for somebody who has seen nothing; None: the beginning is lost already."""
    is_whole = bool(lines) and (lines[0].time_us == 0 or lines[0].text.startswith(_FIRST_WORDS))
    return 0 if is_whole else None


def parse(content: bytes) -> list[Line]:
    """The kernel's own lines: what programs write into the log is left out."""
    # at line feeds alone, which get a prefix of the kernel's: after anything else a program could write one
    lines = [
        found for each in content.decode(errors="replace").split("\n") if (found := _LINE.fullmatch(each))
    ]
    return [
        _line(rest)
        for each, rest in zip(lines, _in_one_form([each["rest"] for each in lines]), strict=True)
        if rest and is_the_kernels_own(int(each["level"]))
    ]


def _in_one_form(lines: Sequence[str]) -> list[re.Match[str] | None]:
    """What stands before the texts of one reading, and the texts.

    The kernel decides that once for all lines that it gives, which are those of whole messages. A message
    begins with its own words: what only some lines have is of strangers, who would choose a time.
    """
    readings = ([form.fullmatch(each) for each in lines] for form in _FORMS)
    return next(each for each in readings if all(each))


def _line(found: re.Match[str]) -> Line:
    parts = found.groupdict()
    has_time = parts.get("micros") is not None
    return Line(int(parts["seconds"] + parts["micros"]) if has_time else None, parts["text"])


def place_after(before: Sequence[Line], now: Sequence[Line]) -> int | None:
    """Where what is new begins; None: the two looks do not meet.

    A log grows at its end and forgets its beginning. So the end of the earlier look is found in the later
    one, with as much of what was before it as either holds.
    """
    if not before:
        return 0
    if _has_times(before) != _has_times(now):
        # the kernel writes times when it is read: somebody has switched them on or off, for old lines too
        before, now = _timeless(before), _timeless(now)
    for place in range(len(now), 0, -1):
        same = min(place, len(before))
        if now[place - 1] != before[-1] or list(now[place - same : place]) != list(before[-same:]):
            continue
        if now[place - 1].time_us is not None or same >= min(_MIN_OVERLAP, len(before)):
            return place
    return None


def _has_times(lines: Sequence[Line]) -> bool:
    return any(each.time_us is not None for each in lines)


def _timeless(lines: Sequence[Line]) -> list[Line]:
    return [each._replace(time_us=None) for each in lines]


def assembled(lines: Iterable[Line]) -> list[Record]:
    """Messages from lines: one with several lines has the same time on each.

    The scheduler's own words stand in such a message. Were its second line taken for the kernel's, a
    scheduler could write its own end. In a log without times nothing tells such lines apart, and what the
    kernel says of its state decides alone.
    """
    records: list[Record] = []
    for time_us, text in lines:
        last = records[-1] if records else None
        goes_on = last is not None and time_us is not None and last.time_us == time_us
        if last and goes_on and not is_about_a_change(last.text):
            records[-1] = last._replace(text=f"{last.text}\n{text}")
        else:
            records.append(Record(0, time_us or 0, text))
    return records
