"""How long a change waits: for a scheduler to end, and for the kernel and the runtime to do their part."""

from __future__ import annotations

from typing import Final

# unless a user says otherwise
GRACE_S: Final = 10.0  # for a program that was told to stop, before it is killed
TIMEOUT_S: Final = 30.0  # for the kernel to confirm a scheduler, before that is given up

RETURN_TIMEOUT_S: Final = 30.0  # the same at least for what comes back, however little the new one was given
RELEASE_TIMEOUT_S: Final = 30.0  # for the kernel to let go of what was stopped, after the program's own time
EXIT_TIMEOUT_S: Final = 30.0  # for a runtime to notice that a program has ended
