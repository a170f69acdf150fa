"""Reading what log_keeper.py has written: all of it, its last lines, or as it comes."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from schedkit.runtimes.containerd.log_keeper import DOOR
from schedkit.runtimes.containers import Output, Stream

_STREAMS = {b"stdout": Stream.STDOUT, b"stderr": Stream.STDERR}
_POLL_S = 0.02
_KEEPER_TIMEOUT_S = 5.0


def read(
    folder: Path, *, tail: int | None = None, ended: Callable[[], bool] | None = None
) -> Iterator[Output]:
    """The last `tail` lines, or all that was written until now; with `ended` also what follows until then."""
    with Files(folder) as files:
        _catch_up(folder)
        lines = files.lines()
        yield from _outputs(lines if tail is None else deque(lines, maxlen=tail))
        while ended:
            is_over = ended()  # asked first: what was written before the answer is read below
            if is_over:
                _catch_up(folder)
            yield from _outputs(files.lines())
            if is_over:
                return
            time.sleep(_POLL_S)


def remove(folder: Path) -> None:
    """Forget a container's output."""
    with suppress(OSError):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def _catch_up(folder: Path) -> None:
    """Returns when the keeper has stored what the container had written; at once if the keeper has ended."""
    with socket.socket(socket.AF_UNIX) as visit, suppress(OSError):
        visit.settimeout(_KEEPER_TIMEOUT_S)
        visit.connect(str(folder / DOOR))
        visit.recv(1)


class Files:
    """The previous and the current file, whose lines are read once each, also when the keeper rotates."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log"
        # in this order: rotated in between, both are the same file, and none is missed
        self._current = _opened(self.path)
        self._previous = _opened(folder / "log.1")
        if self._previous and self._current and _same(self._previous, self._current):
            self._previous.close()
            self._previous = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in filter(None, (self._previous, self._current)):
            file.close()

    def lines(self) -> Iterator[bytes]:
        """All whole lines since the last call."""
        if self._previous:
            yield from _whole_lines(self._previous)
        if self._current:
            yield from _whole_lines(self._current)
        while fresh := self.successor():
            if self._current:
                # once more: what came between our last look and the change is in the old one
                yield from _whole_lines(self._current)
                self._current.close()
            self._current = fresh
            yield from _whole_lines(fresh)

    def successor(self) -> BinaryIO | None:
        """The file that took the place of the current one; None if none did."""
        fresh = _opened(self.path)
        if fresh and self._current and _same(self._current, fresh):
            fresh.close()
            return None
        return fresh


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.path.sameopenfile(one.fileno(), other.fileno())


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    while (line := file.readline()).endswith(b"\n"):
        yield line
    file.seek(-len(line), os.SEEK_CUR)  # the rest of it is being written


def _outputs(lines: Iterable[bytes]) -> Iterator[Output]:
    """What was written; a line that no keeper wrote, or not to its end, is passed over."""
    for line in lines:
        _, stream, mark, text = (*line.split(b" ", 3), b"", b"", b"")[:4]
        if stream in _STREAMS and mark in {b"F", b"P"}:
            yield Output(_STREAMS[stream], text if mark == b"F" else text[:-1])
