"""How much processor time a few lines take, whatever else the process of the tests does meanwhile."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail if the block takes more.

    Of this thread alone: others look after guests. Without collecting garbage, which strikes anywhere and
    takes as long as the objects of all tests so far need.
    """
    gc.disable()
    began = time.thread_time()
    try:
        yield
        spent = time.thread_time() - began
    finally:
        gc.enable()
    assert spent < seconds, f"{spent:.3f} s of processor time, more than {seconds} s"
