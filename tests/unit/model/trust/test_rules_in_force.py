"""Which rules count while they are written, mended, moved and gone."""

from __future__ import annotations

import pytest

from schedkit.model.trust.policy import InvalidPolicy
from schedkit.model.trust.rules import Rules, TrustMode, built_in_rules
from schedkit.model.trust.rules_in_force import (
    RulesInForce,
    Unreadable,
    after_a_look,
    file_that_counts,
    written_rules,
)
from schedkit.oci.policy.patterns import Re2Pattern

BUILT_IN = built_in_rules(TrustMode.WARN, Re2Pattern)
UNREAD = RulesInForce(None, "the rules have not been read yet")
MALFORMED = Unreadable("mode is on")


def written(mode: str = "enforce") -> Rules:
    return written_rules(
        {"mode": mode}, str.encode, TrustMode.OFF, Re2Pattern, "rules.yaml of ConfigMap sked-rules"
    )


def look(before: RulesInForce, found: Rules | Unreadable | None, now: float = 0) -> RulesInForce:
    return after_a_look(before, found, BUILT_IN, now=now, gone_s=120)


@pytest.mark.parametrize(
    ("before", "found", "after"),
    [
        pytest.param(UNREAD, None, RulesInForce(BUILT_IN), id="nobody wrote any"),
        pytest.param(UNREAD, written(), RulesInForce(written()), id="somebody did"),
        pytest.param(UNREAD, MALFORMED, RulesInForce(None, "mode is on"), id="malformed from the start"),
        pytest.param(
            RulesInForce(written()), MALFORMED, RulesInForce(written(), "mode is on"), id="the last good stay"
        ),
        pytest.param(
            RulesInForce(written(), "mode is on"), written("off"), RulesInForce(written("off")), id="mended"
        ),
        pytest.param(RulesInForce(None, "mode is on"), None, RulesInForce(BUILT_IN), id="removed, unread"),
        pytest.param(RulesInForce(BUILT_IN), None, RulesInForce(BUILT_IN), id="still nobody"),
        pytest.param(
            RulesInForce(written(), "gone", 5), MALFORMED, RulesInForce(written(), "mode is on"), id="back"
        ),
    ],
)
def test_a_look_decides_what_counts(
    before: RulesInForce, found: Rules | Unreadable | None, after: RulesInForce
) -> None:
    assert look(before, found) == after


def test_rules_that_are_gone_count_for_a_while_and_then_the_built_in_ones() -> None:
    gone = look(RulesInForce(written()), None, now=10)
    assert (gone.rules, gone.gone_since) == (written(), 10)
    assert gone.complaint == (
        "rules.yaml of ConfigMap sked-rules is gone; its rules apply for 120 s after it disappeared: "
        "bring it back to keep them"
    )

    assert look(gone, None, now=129) == gone
    assert look(gone, None, now=130) == RulesInForce(BUILT_IN)


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        ([], None),
        (["..data", "..2030_01_02"], None),
        (["rules.yaml", "a.pub"], "rules.yaml"),
        (["trust.yaml", "a.pub"], "trust.yaml"),
    ],
    ids=str,
)
def test_one_file_counts_or_none_is_there(names: list[str], counts: str | None) -> None:
    assert file_that_counts(names, "/etc/rules") == counts


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["rules.yml", "a.pub"], "/etc/rules has no rules.yaml, only a.pub, rules.yml"),
        (["rules.yaml", "trust.yaml"], "both exist, but only one can apply"),
    ],
    ids=str,
)
def test_files_of_which_none_can_count_are_a_slip(names: list[str], words: str) -> None:
    with pytest.raises(InvalidPolicy, match=words):
        file_that_counts(names, "/etc/rules")


def test_a_file_without_a_word_in_it_opens_nothing() -> None:
    with pytest.raises(InvalidPolicy, match="is empty: write a mode"):
        written_rules(None, str.encode, TrustMode.OFF, Re2Pattern, "rules.yaml")
