"""Keeps the output of one containerd container, in files of bounded size; started by containerd's shim.

containerd itself keeps nothing. Its shim starts this file as a program of its own, with the container's
standard output and error as descriptors 3 and 4, and waits until 5 is closed. It lives as long as the
container, so it imports as little as it can, and nothing of schedkit.

The shim gives no input to a container whose output it hands to such a program: containerdinput.py starts it
then, and names the three descriptors, and a fourth from which a byte comes once the container is created.

A line is a time, a stream and `F`, or `P` if the rest of it follows.
"""

# ruff: noqa: PTH103, PTH105, PTH108, PTH118 - one such process per container: it goes without pathlib

import contextlib
import os
import select
import signal
import socket
import sys
import time

FILE_LIMIT_BYTES = 2 << 20  # of two files: the current one and the one before
_LINE_LIMIT_BYTES = 16 << 10
_PIECE_BYTES = 64 << 10
_SHIMS = (3, 4, 5)  # output, error, what is closed when we are ready
_PIPE_LIMIT_BYTES = 1 << 20
DOOR = "door"


class Keeper:
    """The files in one folder. What cannot be written is dropped: a full disk must not stop a scheduler."""

    def __init__(self, folder: str) -> None:
        self._current = os.path.join(folder, "log")
        self._previous = os.path.join(folder, "log.1")
        self._file = -1
        self._size = 0
        self._unfinished: dict[bytes, bytes] = {}

    def take(self, stream: bytes, data: bytes) -> None:
        """Write all lines in it; an unfinished one is kept until its rest comes, or it is long."""
        *lines, rest = (self._unfinished.get(stream, b"") + data).split(b"\n")
        for line in lines:
            self._write(stream, b"F", line)
        while len(rest) > _LINE_LIMIT_BYTES:
            self._write(stream, b"P", rest[:_LINE_LIMIT_BYTES])
            rest = rest[_LINE_LIMIT_BYTES:]
        self._unfinished[stream] = rest

    def finish(self) -> None:
        """Write what has no end."""
        for stream, rest in self._unfinished.items():
            if rest:
                self._write(stream, b"P", rest)

    def _write(self, stream: bytes, mark: bytes, text: bytes) -> None:
        now = time.time_ns()
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9))
        line = b"%b.%09dZ %b %b %b\n" % (seconds.encode(), now % 10**9, stream, mark, text)
        with contextlib.suppress(OSError):
            if self._file < 0 or self._size + len(line) > FILE_LIMIT_BYTES:
                self._rotate()
            if os.write(self._file, line) == len(line):
                self._size += len(line)
            else:  # the disk is full: half a line would spoil the next one as well
                os.ftruncate(self._file, self._size)

    def _rotate(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            os.replace(self._current, self._previous)
        self._file = os.open(self._current, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size


class Streams:
    """The ends of the container's standard output and error from which we read."""

    def __init__(self, keeper: Keeper, output: int, error: int) -> None:
        self._keeper = keeper
        self.open = {output: b"stdout", error: b"stderr"}
        for descriptor in self.open:
            os.set_blocking(descriptor, False)

    def drain(self) -> None:
        """Take what has been written until now: no pipe holds more than this reads."""
        for descriptor, stream in list(self.open.items()):
            for _ in range(_PIPE_LIMIT_BYTES // _PIECE_BYTES):
                try:
                    data = os.read(descriptor, _PIECE_BYTES)
                except BlockingIOError:
                    break
                if not data:
                    del self.open[descriptor]
                    break
                self._keeper.take(stream, data)


def keep(folder: str, output: int, error: int, readiness: int, created: int | None = None) -> None:
    """Until both streams have ended. Whoever knocks is let go when all is written that was there."""
    keeper = Keeper(folder)
    streams = Streams(keeper, output, error)
    with socket.socket(socket.AF_UNIX) as door:
        doors = [door.fileno()] if _open(door, folder) else []
        os.close(readiness)
        if created is not None and not os.read(created, 1):
            return  # whoever creates the container failed, or was killed
        while streams.open:
            ready, _, _ = select.select([*doors, *streams.open], [], [])
            visitors = [door.accept()[0]] if door.fileno() in ready else []
            streams.drain()
            for visitor in visitors:
                visitor.close()
        keeper.finish()


def _open(door: socket.socket, folder: str) -> bool:
    """False: there can be no folder. Nothing is kept then; the container runs all the same."""
    path = os.path.join(folder, DOOR)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of a container of the same name, before the machine restarted
        door.bind(path)
        door.listen()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # the shim says when it is done; the streams say when we are
    keep(
        os.path.join(sys.argv[1], os.environ["CONTAINER_ID"]),
        *([int(each) for each in sys.argv[2:]] or _SHIMS),
    )
