"""Announcements of the kernel, as they arrive over netlink."""

from __future__ import annotations

import os
import socket
import time

import pytest

from schedkit.kernel import uevents
from schedkit.kernel.uevents import Listener
from schedkit.model.kernel.log import Announcement, Change


def message(head: str, *lines: str) -> bytes:
    return "\0".join([head, *lines, ""]).encode()


def test_an_attached_scheduler_is_announced_by_name() -> None:
    content = message("add@/kernel/sched_ext/root", "ACTION=add", "SUBSYSTEM=sched_ext", "SCXOPS=mini")

    assert uevents.parse(content) == Announcement(Change.ATTACHED, "mini")


def test_a_kernel_that_has_forgotten_the_name_says_so() -> None:
    content = message("remove@/kernel/sched_ext/root", "ACTION=remove", "SCXOPS=(efault)")

    assert uevents.parse(content) == Announcement(Change.DETACHED, None)


@pytest.mark.parametrize(
    "content",
    [
        message("add@/devices/virtual/net/veth0", "SUBSYSTEM=net", "SCXOPS=mini"),
        message("change@/kernel/sched_ext/root", "SCXOPS=mini"),
        message("lost@/kernel/sched_ext/root", "SCXOPS=mini"),
        message("add@/kernel/sched_ext/root/sub/sub-7", "SCXOPS=inner"),
        b"libudev\0\xfe\xed\xca\xfe",
        b"",
    ],
)
def test_anything_else_is_no_announcement(content: bytes) -> None:
    assert uevents.parse(content) is None


def test_a_listener_gives_up_when_its_time_is_over() -> None:
    started = time.monotonic()

    with Listener() as listener:
        heard = list(listener.announcements(timeout_s=0.1))

    assert heard == []
    assert time.monotonic() - started >= 0.1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may speak where the kernel does")
def test_a_listener_that_could_not_keep_up_says_that_something_was_lost() -> None:
    with Listener() as listener, socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15) as flood:
        for _ in range(2000):  # nobody takes them for the kernel's, but they fill the buffer
            flood.sendto(b"x" * 500, (0, 1))

        assert next(listener.announcements(timeout_s=5)) == Announcement(Change.LOST, None)
