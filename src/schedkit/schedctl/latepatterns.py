"""Regular expressions that are compiled when they are first used.

Libraries compile theirs while they are imported, and a command uses few of them: one of `cryptography`'s
takes as long to compile as a signature to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_compile = re.compile


class LatePattern:
    """Does what the pattern would do that `re.compile` makes of the same arguments."""

    def __init__(self, pattern: Any, flags: Any = 0) -> None:  # noqa: ANN401 - as `re.compile` takes them
        self._arguments = pattern, flags

    @property  # type: ignore[misc]  # nobody sets it
    def __class__(self) -> type[Any]:
        """Functions of `re` ask for it."""
        return re.Pattern

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a pattern has
        """Called once for each name, and then found in the object."""
        if name == "_compiled":
            self._compiled = _compile(*self._arguments)
            return self._compiled
        found = getattr(self._compiled, name)
        setattr(self, name, found)
        return found


@contextmanager
def compiled_late() -> Iterator[None]:
    """Let `re.compile` in this block make patterns that are compiled late; a wrong one is told late, too."""
    re.compile = LatePattern  # type: ignore[assignment]  # it can be called in the same way
    try:
        yield
    finally:
        re.compile = _compile
