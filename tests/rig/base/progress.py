"""One line on stderr whenever something long begins, goes on or ends, so that nobody waits in the dark."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_EVERY_S = 30.0
_running: list[object] = []  # steps within steps; only the innermost says that it goes on


def say(text: str) -> None:
    """Print one progress line, also when pytest captures the ordinary streams."""
    with suppress(OSError):  # the terminal is closed: what is being done, or undone, goes on
        print(f"[rig] {text}", file=sys.__stderr__, flush=True)


@contextmanager
def step(text: str, *, detail: Callable[[], str] | None = None, every_s: float = _EVERY_S) -> Iterator[None]:
    """Announce a long step, say now and then that it goes on, and at its end how long it took.

    `detail` is asked for what there is to tell on the way.
    """
    say(f"{text} …")
    started = time.monotonic()
    with _reminding(text, detail, every_s):
        yield
    say(f"{text}: done in {time.monotonic() - started:.0f} s")


@contextmanager
def _reminding(text: str, detail: Callable[[], str] | None, every_s: float) -> Iterator[None]:
    ended = threading.Event()
    _running.append(ended)
    name = text.partition(":")[0]
    threading.Thread(target=_remind, args=(name, ended, detail, every_s), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        _running.remove(ended)


def _remind(name: str, ended: threading.Event, detail: Callable[[], str] | None, every_s: float) -> None:
    started = time.monotonic()
    while not ended.wait(every_s):
        said = f", {detail()}" if detail else ""
        # asked again: to find out the detail takes a while, and what it is about may be gone by now
        if not ended.is_set() and _running[-1:] == [ended]:
            say(f"{name}: still at it after {time.monotonic() - started:.0f} s{said}")
