"""Ends a rig whose terminal was closed, where nobody else would tell it.

When make leads the session, as under `ssh -t host make cluster`, the kernel tells make alone that the
terminal is gone; make passes it on to nobody and waits for its child.
"""

from __future__ import annotations

import os
import select
import signal
import threading

_TERMINAL = 0  # stdin
_LOOK_MS = 1000  # a waiter is not woken by every kind of hang-up


def end_with_terminal() -> None:
    """From now on, a hang-up of the terminal comes to this process as SIGTERM; `nohup` prevents it."""
    if (
        _parent_leads_session()
        and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        and os.isatty(_TERMINAL)
    ):
        threading.Thread(target=_watch, daemon=True).start()


def _parent_leads_session() -> bool:
    """A shell that leads it tells all of its jobs."""
    return os.getsid(0) == os.getppid()


def _watch() -> None:
    hangups = select.poll()
    hangups.register(_TERMINAL, 0)  # nothing but a hang-up
    while not hangups.poll(_LOOK_MS):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
