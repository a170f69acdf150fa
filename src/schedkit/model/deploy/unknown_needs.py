"""What a SchedExt or its DaemonSet needs of its manager, by the annotation `sked.schedkit.io/needs`.

A newer manager writes a word there together with the first change that needs it. A manager that does not know
every word leaves both alone, so that an operator that is rolled back undoes nothing.
"""

from __future__ import annotations

import re

from schedkit.model.deploy.observation import Observation

# a feature that announces itself adds its word here, with the code that knows what to do about it
STOP = "stop"  # a manager that knows of no stops would start it again
KNOWN: frozenset[str] = frozenset({STOP})

_BETWEEN_WORDS = re.compile(r"[,\s]+")


def unknown_needs(observation: Observation) -> tuple[str, ...]:
    """What this manager would have to know, in order; empty: it may do its work."""
    owned = observation.daemon_set if observation.is_ours else None
    asked = (each.metadata.annotations.needs for each in (observation.schedext, owned) if each is not None)
    return tuple(sorted({word for needs in asked for word in _words(needs)} - KNOWN))


def is_left_alone(observation: Observation) -> bool:
    """Whether this manager writes nothing: one that knows more wrote it, and one that knows more goes on."""
    return bool(unknown_needs(observation))


def _words(needs: str) -> set[str]:
    """Commas or blanks are between words."""
    return set(_BETWEEN_WORDS.split(needs)) - {""}


def with_need(needs: str, word: str) -> str:
    """The annotation with that word as well; the words of others stay."""
    return ",".join(sorted(_words(needs) | {word}))


def without_need(needs: str, word: str) -> str:
    """The annotation without that word; empty: nothing is left to be said."""
    return ",".join(sorted(_words(needs) - {word}))
