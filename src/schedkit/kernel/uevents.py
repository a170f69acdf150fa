"""Announcements of the kernel when a scheduler is attached or goes: no polling is needed.

An attachment that fails is announced by nobody.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from schedkit.model.kernel.log import Announcement, Change

_KOBJECT_UEVENT = 15
_FROM_THE_KERNEL = 1  # the group that udev does not write to
_PATH = "/kernel/sched_ext/root"
_SIZE = 1 << 16
_UNKNOWN_OPS = "(efault)"


class Listener:
    """A socket that hears every announcement from the moment it is made."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _KOBJECT_UEVENT)
        self._socket.bind((0, _FROM_THE_KERNEL))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def waiting(self) -> Iterator[Announcement]:
        """Announcements that have come already, without waiting for more; the socket must not block."""
        while True:
            try:
                announcement = self._receive()
            except BlockingIOError:
                return
            if announcement is not None:
                yield announcement

    def announcements(self, *, timeout_s: float) -> Iterator[Announcement]:
        """Announcements of sched_ext until the time is over, and `LOST` where the socket dropped some."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left_s)
            try:
                announcement = self._receive()
            except TimeoutError:
                return
            if announcement is not None:
                yield announcement

    def _receive(self) -> Announcement | None:
        """What comes next, or `LOST`; None: it is not about sched_ext, or not from the kernel."""
        try:
            content, sender = self._socket.recvfrom(_SIZE)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return Announcement(Change.LOST, None)  # more came than fitted
        return parse(content) if sender[0] == 0 else None  # 0: the kernel itself


@contextmanager
def hearing(listen: Callable[[], Listener] = Listener, *, poll_s: float) -> Iterator[Callable[[float], None]]:
    """A way to wait for that many seconds, or less: until the kernel announces a change of schedulers.

    Where it cannot be heard, as inside some containers, no wait is longer than `poll_s`.
    """
    try:
        listener = listen()
    except OSError:
        yield lambda timeout_s: time.sleep(min(timeout_s, poll_s))
        return
    with listener:
        yield lambda timeout_s: _hear(listener, timeout_s)


def _hear(listener: Listener, timeout_s: float) -> None:
    next(listener.announcements(timeout_s=timeout_s), None)


def parse(content: bytes) -> Announcement | None:
    """The announcement in a netlink message; None if it is about something else."""
    head, *lines = content.decode(errors="replace").split("\0")
    action, at, path = head.partition("@")
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    if not at or path != _PATH or action not in {Change.ATTACHED, Change.DETACHED}:
        return None
    ops = values.get("SCXOPS", "")
    return Announcement(Change(action), ops if ops and ops != _UNKNOWN_OPS else None)
