"""The kernel's log: how schedulers ended, in the kernel's own words. No file of sysfs keeps them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from schedkit.model.kernel.log import REASONS, Attachment, Exit, ExitKind, LogReading, Remark

_RECORD = re.compile(rb"^(\d{1,10}),(\d{1,18}),(\d{1,18})[^;\n]*;(.*)$", re.MULTILINE)
_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})")
_KERNEL, _FACILITY_SHIFT = 0, 3  # who writes into /dev/kmsg cannot pass for the kernel
PREFIX = "sched_ext: "
_ENABLED = re.compile(r'sched_ext: BPF \S*scheduler "(?P<ops>.*)" enabled', re.DOTALL)
_DISABLED = re.compile(r'sched_ext: BPF \S*scheduler "(?P<ops>.*)" disabled \((?P<reason>.*)\)\s*', re.DOTALL)
_MESSAGE_WITHIN = 32  # records: others may write into the log in between
_READ_SIZE = 8192  # the kernel's limit for one record; a smaller buffer is refused
_MAX_READS = 1 << 17  # of a record each; a ring buffer of 2 MiB holds a quarter of that


class Record(NamedTuple):
    """One message of the log."""

    seq: int
    time_us: int
    text: str


def read(root: Path, *, after_seq: int = -1) -> LogReading:
    """What the log holds now about sched_ext, without waiting for more."""
    try:
        content, lost = _drain(root / "dev/kmsg")
    except OSError as error:
        return LogReading(problem=f"the kernel's log cannot be read ({error.strerror}): run as root")
    reading = interpret(parse(content), after_seq=after_seq)
    problem = "the kernel's log was overwritten while it was read" if lost else ""
    return reading._replace(problem=problem)


def _drain(path: Path) -> tuple[bytes, bool]:
    """All records, and whether some were overwritten before they could be read."""
    chunks: list[bytes] = []
    lost = False
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        for _ in range(_MAX_READS):
            try:
                chunk = os.read(descriptor, _READ_SIZE)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                lost = True  # the next read continues with the oldest record that is left
                continue
            if not chunk:
                break
            chunks.append(chunk)
    finally:
        os.close(descriptor)
    return b"".join(chunks), lost


def parse(content: bytes) -> list[Record]:
    """The kernel's records in what `/dev/kmsg` gives; what is none, or a program's, is left out."""
    return [
        Record(int(seq), int(time_us), _unescaped(text))
        for priority, seq, time_us, text in _RECORD.findall(content)
        if int(priority) >> _FACILITY_SHIFT == _KERNEL
    ]


def _unescaped(text: bytes) -> str:
    r"""The kernel writes line ends, and all that is not ASCII, as `\x0a`."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text).decode(errors="replace")


def interpret(records: Sequence[Record], *, after_seq: int = -1) -> LogReading:
    """What the records with later numbers say about sched_ext."""
    own = [record for record in records if record.seq > after_seq and record.text.startswith(PREFIX)]
    exits: list[Exit] = []
    told: set[int] = set()  # records that are a part of an exit
    for place, record in enumerate(own):
        if found := _DISABLED.fullmatch(record.text):
            message = _message(found["ops"], islice(own, place + 1, place + 1 + _MESSAGE_WITHIN))
            told |= {record.seq} | ({message.seq} if message else set())
            exits.append(_exit(found, record, message))
    news = [(each, _ENABLED.match(each.text)) for each in own if each.seq not in told]
    remarks = tuple(
        Remark(each.text.removeprefix(PREFIX).strip(), each.seq, each.time_us)
        for each, enabled in news
        if not enabled
    )
    attachments = tuple(Attachment(found["ops"], each.seq, each.time_us) for each, found in news if found)
    last_seq = max((record.seq for record in records), default=-1)
    return LogReading(tuple(exits), remarks, last_seq, attachments=attachments)


def is_about_a_change(text: str) -> bool:
    """Whether a message is the kernel's about an attachment or an end: such a message has one line."""
    return bool(_DISABLED.fullmatch(text) or _ENABLED.match(text))


def _message(ops: str, following: Iterable[Record]) -> Record | None:
    """The kernel's words about a failure; it has none about an ordinary end."""
    for record in following:
        if is_about_a_change(record.text):
            return None
        if record.text.startswith(f"{PREFIX}{ops}: "):
            return record
    return None


def _exit(found: re.Match[str], record: Record, message: Record | None) -> Exit:
    words = message.text.removeprefix(f"{PREFIX}{found['ops']}: ").strip() if message else ""
    kind = REASONS.get(found["reason"], ExitKind.UNKNOWN)
    return Exit(found["ops"], kind, found["reason"], words, record.seq, record.time_us)
