"""Which of the administrator's rules count now: those that can be read, or those from before.

Rules that cannot be read leave the earlier ones in force; where there are none from before, nobody knows the
rules, and nothing new may run. Rules that are gone count for a while more. Then whoever took them away must
have meant it, and the built-in ones count.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from schedkit.model.images.references import brief
from schedkit.model.trust.policy import InvalidPolicy, ParsePattern, Read
from schedkit.model.trust.rules import OLD_RULES_FILE, PLACES, RULES_FILE, Rules, TrustMode, parse_rules

# what is renamed or replaced is gone for a moment, and a kubelet may take 90 s to bring the next
GONE_S: Final = 120.0
_BOTH: Final = (
    f"{PLACES[RULES_FILE]} and {PLACES[OLD_RULES_FILE]} both exist, but only one can apply: put all rules "
    f"into {RULES_FILE}, then delete {OLD_RULES_FILE}, with its ConfigMap"
)


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules that count, and what is wrong with those that should."""

    rules: Rules | None  # None: they were never readable so far, so that nobody knows them
    complaint: str = ""  # empty: they can be read, or there are none
    gone_since: float | None = None  # on the caller's clock; None: they are there, or never were


@dataclass(frozen=True, slots=True)
class Unreadable:
    """There are rules, and they cannot be used."""

    why: str


def file_that_counts(names: Collection[str], folder: str) -> str | None:
    """Which of the files in the folder has the rules; None: nobody wrote any.

    Files without one that counts are a slip in its name, which must not turn enforcement off.
    """
    known = [name for name in PLACES if name in names]
    if len(known) > 1:
        raise InvalidPolicy(_BOTH)
    if known:
        return known[0]
    # what begins so is how a kubelet swaps them
    others = sorted(name for name in names if not name.startswith(".."))
    if others:
        found = brief(", ".join(others))
        raise InvalidPolicy(f"{folder} has no {RULES_FILE}, only {found}: check the file's name")
    return None


def written_rules(
    document: object, read: Read, floor: TrustMode, parse_pattern: ParsePattern, place: str
) -> Rules:
    """As `parse_rules`, for a file that somebody wrote: one without a word in it opens nothing."""
    if document is None:
        raise InvalidPolicy(f"{place} is empty: write a mode, {{}} for no rules, or remove the file")
    return replace(parse_rules(document, read, floor, parse_pattern), place=place)


def after_a_look(
    before: RulesInForce, found: Rules | Unreadable | None, built_in: Rules, *, now: float, gone_s: float
) -> RulesInForce:
    """What is in force after a look that found that; None: nobody wrote any rules."""
    match found:
        case Unreadable(why):
            return RulesInForce(before.rules, why)
        case Rules():
            return RulesInForce(found)
    if before.rules is None or not before.rules.place:
        return RulesInForce(built_in)
    gone_since = now if before.gone_since is None else before.gone_since
    if now - gone_since >= gone_s:
        return RulesInForce(built_in)
    words = f"{before.rules.place} is gone; its rules apply for {gone_s:.0f} s after it disappeared"
    return RulesInForce(before.rules, f"{words}: bring it back to keep them", gone_since)
