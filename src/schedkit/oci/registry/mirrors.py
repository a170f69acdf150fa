"""Where else a repository may be read: mirrors in their order, and the repository itself last."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from schedkit.model.images.references import Repository


class Mirrors(msgspec.Struct, frozen=True):
    """Where there are copies of a registry, or of a path in it: `{"docker.io": ("mirror.test/hub",)}`."""

    by_prefix: Mapping[str, tuple[str, ...]] = {}

    def places(self, repository: Repository) -> tuple[Repository, ...]:
        """Where to look, in order; the longest prefix that fits decides, and the origin comes last."""
        name = str(repository)
        prefix = longest_prefix(name, self.by_prefix)
        copies = self.by_prefix[prefix] if prefix else ()
        return (*(_moved(copy, name[len(prefix or "") :]) for copy in copies), repository)


def longest_prefix(name: str, prefixes: Mapping[str, object]) -> str | None:
    """The longest of the prefixes that is the name, or ends where one of its parts does; None: none is."""
    fitting = [prefix for prefix in prefixes if name == prefix or name.startswith(f"{prefix}/")]
    return max(fitting, key=len, default=None)


def _moved(copy: str, rest: str) -> Repository:
    registry, _, path = f"{copy}{rest}".partition("/")
    return Repository(registry, path)
