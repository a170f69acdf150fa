"""One line on stderr whenever something long begins or ends, so that nobody waits in the dark."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(text: str) -> None:
    """Print one progress line, also when pytest captures the ordinary streams."""
    print(f"[rig] {text}", file=sys.__stderr__, flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Announce a long step and say how long it took."""
    say(f"{text} …")
    started = time.monotonic()
    yield
    say(f"{text}: done in {time.monotonic() - started:.0f} s")
