"""What is told about a change, and what becomes of the change when nobody listens."""

from __future__ import annotations

import os
from contextlib import redirect_stderr, suppress

from schedkit.schedctl.answers.progress import tell


def test_a_line_that_nobody_can_read_does_not_end_the_change() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    pipe = os.fdopen(writer, "w", buffering=1)

    with redirect_stderr(pipe):
        tell("starting old again")

    with suppress(BrokenPipeError):  # what was never read is still in its buffer
        pipe.close()
