"""The kernel's log as `/dev/kmsg` gives it, to root; what it says is told by `model.kernel.log`."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from schedkit.model.kernel.log import LogReading, Record, interpret, is_the_kernels_own

_RECORD = re.compile(rb"^(\d{1,10}),(\d{1,18}),(\d{1,18})[^;\n]*;(.*)$", re.MULTILINE)
_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})")
_READ_SIZE = 8192  # the kernel's limit for one record; a smaller buffer is refused
_MAX_READS = 1 << 17  # of a record each; a ring buffer of 2 MiB holds a quarter of that


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
        if is_the_kernels_own(int(priority))
    ]


def _unescaped(text: bytes) -> str:
    r"""The kernel writes line ends, and all that is not ASCII, as `\x0a`."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text).decode(errors="replace")
