"""The book of verdicts: which of them count for whom, and for how long."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rig.builders.observations import MOVED, SIGNED, SIGNED_IMAGE, trusted
from schedkit.model.api.conditions import Reason
from schedkit.model.deploy.verdicts import Distrusted, Pace, Question, Undecided, Verdict, VerdictBook
from schedkit.model.images.references import Digest

BY_TAG = Question(SIGNED_IMAGE, None, "policy")
PINNED = replace(BY_TAG, pinned=SIGNED)
BY_DIGEST = Question(f"{SIGNED_IMAGE}@{SIGNED}", None, "policy")
PACE = Pace(interval_s=600)
OUTAGE = Undecided(Reason.REGISTRY_UNREACHABLE, "no route")
NOBODY = Distrusted(3, "nobody signed it")


def asked(question: Question = BY_TAG, *keys: str) -> VerdictBook[str]:
    book: VerdictBook[str] = VerdictBook()
    for key in keys or ("scx",):
        book = book.asking(key, question)
    return book


def learned(
    book: VerdictBook[str], found: Verdict, question: Question = BY_TAG, *, now: float = 0, retry_s: float = 9
) -> VerdictBook[str]:
    return book.learning(question, found, now=now, pace=PACE, retry_s=retry_s)


@pytest.mark.parametrize(
    ("question", "found", "good_until"),
    [
        pytest.param(BY_TAG, trusted(), 700, id="what a tag means is looked at again"),
        pytest.param(PINNED, trusted(), 700, id="and whether it was moved"),
        pytest.param(BY_DIGEST, trusted(), math.inf, id="what a digest means does not change"),
        pytest.param(BY_DIGEST, NOBODY, 700, id="but somebody may sign it yet"),
        pytest.param(BY_TAG, OUTAGE, 109, id="an outage is looked at sooner"),
        pytest.param(BY_TAG, replace(OUTAGE, retry_after_s=60), 160, id="as soon as the registry allows"),
        pytest.param(BY_TAG, replace(OUTAGE, retry_after_s=1e9), 1900, id="but not never"),
    ],
)
def test_how_long_a_verdict_counts(question: Question, found: Verdict, good_until: float) -> None:
    book = learned(asked(question), found, question, now=100)

    assert book.known[question].good_until == good_until
    assert not book.is_due(question, min(good_until - 1, 1e9))
    assert book.is_due(question, good_until)


def test_an_outage_takes_no_verdict_back_and_is_counted() -> None:
    good = learned(asked(), trusted())
    away = learned(learned(good, OUTAGE), OUTAGE)

    assert away.verdict("scx", BY_TAG) == good.verdict("scx", BY_TAG)
    assert (good.failures(BY_TAG), away.failures(BY_TAG)) == (0, 2)
    assert learned(away, trusted()).failures(BY_TAG) == 0
    assert learned(asked(), OUTAGE).verdict("scx", BY_TAG) == OUTAGE, "there was none to keep"


def test_a_verdict_is_news_to_all_who_ask_unless_they_know_it() -> None:
    book = asked(BY_TAG, "a", "b")
    known = learned(book, NOBODY)

    assert known.news_since(book, BY_TAG) == ("a", "b")
    assert learned(known, NOBODY, now=700).news_since(known, BY_TAG) == ()
    assert learned(known, OUTAGE, now=700).news_since(known, BY_TAG) == ()


def test_what_was_verified_is_known_of_the_digest_that_pods_are_bound_to() -> None:
    found = trusted()
    book = learned(asked(), found)

    assert book.verdict("scx", PINNED) == found, "also before it is asked"
    pinned = book.asking("scx", PINNED)
    assert pinned.verdict("scx", PINNED) == found
    assert pinned.known.keys() == {PINNED}
    assert book.verdict("scx", replace(PINNED, pinned=MOVED)) is None, "nobody looked at that one"
    assert book.verdict("another", PINNED) is None


def test_nothing_is_known_that_nobody_asks() -> None:
    book = learned(asked(BY_TAG, "a", "b"), NOBODY)

    assert book.asking("a", None).known.keys() == {BY_TAG}
    for gone in (book.asking("a", None).asking("b", PINNED), book.forgetting("a").forgetting("b")):
        assert gone.known == {}
        assert learned(gone, NOBODY) == gone, "an answer that comes too late is dropped"
    assert book.forgetting("a").forgetting("b") == VerdictBook()


def test_good_verdicts_are_remembered_by_their_policy_the_last_ones() -> None:
    digests = [Digest(f"sha256:{number:064}") for number in range(10)]
    book = asked()
    for each in (*digests, digests[5]):
        book = learned(learned(book, trusted(each)), OUTAGE)

    vouched = [each.verified.digest for each in book.vouched_for("scx", "policy")]
    assert vouched == [*digests[2:5], *digests[6:], digests[5]]
    assert book.asking("scx", None).vouched_for("scx", "policy") != (), "as long as nobody looks, it stands"
    assert book.vouched_for("scx", "another") == ()
    other = book.asking("scx", replace(BY_TAG, policy="another"))
    assert other.asking("scx", BY_TAG).vouched_for("scx", "policy") == (), "another policy begins anew"
