"""Files that watch others are told apart by the kernel itself."""

from __future__ import annotations

import os
import select

from schedkit.kernel.watching import is_watching


def test_a_file_that_watches_others_is_told_apart() -> None:
    reading, writing = os.pipe()
    with select.epoll() as empty, select.epoll() as watcher:
        watcher.register(reading)
        me = os.getpid()

        assert is_watching(me, watcher.fileno())
        assert is_watching(me, empty.fileno())
        assert not is_watching(me, reading)
        assert not is_watching(me, writing)
    os.close(reading)
    os.close(writing)


def test_what_is_gone_watches_nothing() -> None:
    with select.epoll() as watcher:
        number = watcher.fileno()

    assert not is_watching(os.getpid(), number)
    assert not is_watching(0x3FFFFFFF, 3)
