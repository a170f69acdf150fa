"""When things happened, by the kernel's own log: marks of ours and its own words, on one clock."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rig.base.errors import RigError

_LOG = Path("/dev/kmsg")
_RECORD = re.compile(r"^\d+,(\d+),(\d+)[^;\n]*;(.*)$", re.MULTILINE)
_RECORD_BYTES = 8192  # a smaller buffer is refused
ATTACHED = r'sched_ext: BPF \S*scheduler ".*" enabled'
DETACHED = r'sched_ext: BPF \S*scheduler ".*" disabled'


class NotToldError(RigError):
    """The log does not say when that happened."""


class Record(NamedTuple):
    """One line of the log."""

    number: int
    at_s: float
    text: str


def mark(words: str) -> None:
    """Write a line of ours."""
    _LOG.write_text(f"{words}\n")


def read() -> list[Record]:
    """All that it holds now."""
    descriptor = os.open(_LOG, os.O_RDONLY | os.O_NONBLOCK)
    pieces: list[str] = []
    try:
        while True:
            pieces.append(os.read(descriptor, _RECORD_BYTES).decode(errors="replace"))
    except BlockingIOError:
        return parse("".join(pieces))
    finally:
        os.close(descriptor)


def parse(log: str) -> list[Record]:
    """The records in what the kernel gives."""
    return [Record(int(number), int(time_us) / 1e6, text) for number, time_us, text in _RECORD.findall(log)]


def last_number(records: Iterable[Record]) -> int:
    """That of the last record; -1: there is none."""
    return max((record.number for record in records), default=-1)


def moment(records: Iterable[Record], pattern: str, *, after: int) -> Record:
    """The first record with a higher number that begins like that."""
    for record in records:
        if record.number > after and re.match(pattern, record.text):
            return record
    raise NotToldError(f"the kernel's log has nothing like {pattern!r} after its record {after}")
