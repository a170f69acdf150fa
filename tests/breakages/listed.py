"""The list of breakages: what each promises, breaks and is caught by."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.base.errors import RigError
from rig.session import tiers

FILE = Path(__file__).with_name("breakages.toml")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Breakage:
    """One changed line, and the test of `make test` that fails because of it."""

    name: str
    promise: str  # what no longer holds, as a sentence that should be true
    file: str
    old: str  # stands exactly once in the file
    new: str
    test: str  # a node id; of a test with parameters, all of them or one

    @property
    def tier(self) -> str:
        """Where the test is."""
        return tiers.of(self.test) or "other"

    @property
    def package(self) -> str:
        """What is broken: a package of schedkit, or one of its modules."""
        return Path(self.file).relative_to("src/schedkit").parts[0]

    def applied_to(self, text: str) -> str:
        """The file's text, broken; `RigError` if it is not clear where."""
        if (found := text.count(self.old)) != 1:
            why = f"what {self.name} breaks stands {found} times in {self.file}, not once"
            raise RigError(f"{why}: write its `old` in {FILE.relative_to(ROOT)} anew, or the promise is gone")
        return text.replace(self.old, self.new)


def read() -> tuple[Breakage, ...]:
    """All of them, in the order of the file."""
    listed = tomllib.loads(FILE.read_text())
    return tuple(Breakage(name=name, **told) for name, told in listed.items())


def chosen(listed: Sequence[Breakage], names: Sequence[str], tier: str | None) -> list[Breakage]:
    """Those of these names or numbers, of that tier; all by default, the quick tiers first."""
    known = {str(number): each.name for number, each in enumerate(listed, start=1)}
    wanted = {known.get(word, word) for word in names}
    if strangers := wanted - {each.name for each in listed}:
        raise RigError(f"no breakage is called {', '.join(sorted(strangers))}: see {FILE.relative_to(ROOT)}")
    found = [each for each in listed if not wanted or each.name in wanted]
    return sorted(
        (each for each in found if tier in (None, each.tier)), key=lambda each: tiers.TIERS.index(each.tier)
    )
