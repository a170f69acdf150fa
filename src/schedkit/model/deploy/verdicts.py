"""What can come of asking who signed an image, for which SchedExt that counts, and for how long.

The book of verdicts is a value: what happens to it returns another one. It has a clock of nobody's choice:
whoever keeps it says what time it is.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeAlias, TypeVar

from schedkit.model.api.conditions import Reason
from schedkit.model.images.references import Digest
from schedkit.model.trust.verified import Verified

Key = TypeVar("Key", bound=Hashable)  # which SchedExt
_MOST_VOUCHED: Final = 8


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that an answer depends on, but what lies in the registry."""

    image: str  # as users write it
    pinned: Digest | None  # what the pods are bound to; None: nothing yet
    policy: str  # the fingerprint of the policy

    @property
    def names_digest(self) -> bool:
        """Whether the user named a digest, which means the same for ever."""
        return "@" in self.image


@dataclass(frozen=True, slots=True)
class Trusted:
    """Somebody who is trusted signed it."""

    verified: Verified
    current: Digest  # what the image's name means by now
    parts: frozenset[Digest] = frozenset()  # what it lists for platforms: some runtimes name only these

    def covers(self, digest: str) -> bool:
        """Whether it is about these bytes."""
        return digest == self.verified.digest or digest in self.parts


@dataclass(frozen=True, slots=True)
class Distrusted:
    """Nobody who is trusted did: the step of verification that failed, and why."""

    step: int
    why: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """It could not be found out."""

    reason: Reason
    why: str
    retry_after_s: float | None = None  # None: nobody said


Verdict: TypeAlias = Trusted | Distrusted | Undecided


def signed_words(verified: Verified) -> str:
    """Who signed what."""
    issuer = f", according to {verified.issuer}" if verified.issuer else ""
    return f"{verified.digest} was signed by {verified.signer}{issuer}"


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the verifier is asked."""

    interval_s: float  # between two looks at a tag

    @property
    def first_retry_s(self) -> float:
        """After a first failure."""
        return self.interval_s / 40

    @property
    def longest_s(self) -> float:
        """After the tenth failure, and however long a registry wants to be left alone."""
        return self.interval_s * 3


@dataclass(frozen=True, slots=True)
class Known:
    """The verdict that counts as the answer to a question."""

    verdict: Verdict
    good_until: float  # infinite: what a digest means does not change
    failures: int = 0  # to look at it again, one after the other


@dataclass(frozen=True, slots=True)
class Vouched:
    """Good verdicts by one policy about what a SchedExt named, the last ones.

    Its pods may still run what a tag meant before it was moved, or what an earlier spec asked for.
    """

    policy: str
    verdicts: tuple[Trusted, ...] = ()

    def also(self, verdict: Verdict | None) -> Vouched:
        """With that one as the newest, if it is good."""
        if not isinstance(verdict, Trusted):
            return self
        others = (each for each in self.verdicts if each.verified.digest != verdict.verified.digest)
        return Vouched(self.policy, (*others, verdict)[-_MOST_VOUCHED:])


@dataclass(frozen=True, slots=True)
class VerdictBook(Generic[Key]):
    """What each SchedExt asks, what is known about that, and who vouched for its images so far."""

    asked: Mapping[Key, Question] = field(default_factory=dict)
    known: Mapping[Question, Known] = field(default_factory=dict)  # only what somebody asks
    vouched: Mapping[Key, Vouched] = field(default_factory=dict)

    # Looking

    def verdict(self, key: Key, question: Question) -> Verdict | None:
        """What is known about it for that SchedExt; None: nothing yet."""
        known = self.known.get(question) or self._kept_by_pinning(key, question)
        return known.verdict if known else None

    def vouched_for(self, key: Key, policy: str) -> tuple[Trusted, ...]:
        """Good verdicts by that policy about what the SchedExt named, the newest last."""
        return self._vouched(key, policy).verdicts

    def askers(self, question: Question) -> tuple[Key, ...]:
        """Who wants to know."""
        return tuple(key for key, asked in self.asked.items() if asked == question)

    def is_due(self, question: Question, now: float) -> bool:
        """Whether the verifier has to be asked."""
        known = self.known.get(question)
        return known is None or known.good_until <= now

    def failures(self, question: Question) -> int:
        """How often in a row the verifier found nothing out about it."""
        known = self.known.get(question)
        return known.failures if known else 0

    def news_since(self, before: VerdictBook[Key], question: Question) -> tuple[Key, ...]:
        """Whom the verdict about it is news to."""
        was, now = before.known.get(question), self.known.get(question)
        is_news = now is not None and (was is None or was.verdict != now.verdict)
        return self.askers(question) if is_news else ()

    # What happens to it

    def asking(self, key: Key, question: Question | None) -> VerdictBook[Key]:
        """The SchedExt needs that answer from now on, and no other; None: it needs none."""
        before = self.asked.get(key)
        asked, known, vouched = dict(self.asked), dict(self.known), dict(self.vouched)
        if question is None:
            asked.pop(key, None)
        else:
            asked[key] = question
            kept = self._kept_by_pinning(key, question)
            if kept is not None:
                known.setdefault(question, kept)
            found = known.get(question)
            vouched[key] = self._vouched(key, question.policy).also(found.verdict if found else None)
        if before is not None and before not in asked.values():
            known.pop(before, None)
        return VerdictBook(asked, known, vouched)

    def forgetting(self, key: Key) -> VerdictBook[Key]:
        """The SchedExt is gone."""
        book = self.asking(key, None)
        vouched = {each: vouched for each, vouched in book.vouched.items() if each != key}
        return replace(book, vouched=vouched)

    def learning(
        self, question: Question, found: Verdict, *, now: float, pace: Pace, retry_s: float
    ) -> VerdictBook[Key]:
        """The verifier found that; the same book if nobody wants to know any more.

        `retry_s`: how soon the verifier is asked again if it found nothing out.
        """
        askers = self.askers(question)
        if not askers:
            return self
        known = _kept(question, self.known.get(question), found, now=now, pace=pace, retry_s=retry_s)
        vouched = {key: self._vouched(key, question.policy).also(known.verdict) for key in askers}
        return replace(self, known={**self.known, question: known}, vouched={**self.vouched, **vouched})

    def _vouched(self, key: Key, policy: str) -> Vouched:
        """Another policy begins anew: it may trust others."""
        found = self.vouched.get(key)
        return found if found and found.policy == policy else Vouched(policy)

    def _kept_by_pinning(self, key: Key, question: Question) -> Known | None:
        """What was verified stays so when pods are bound to it, which makes it another question."""
        before = self.asked.get(key)
        known = self.known.get(before) if before else None
        if before is None or known is None or not isinstance(known.verdict, Trusted):
            return None
        return known if replace(before, pinned=known.verdict.verified.digest) == question else None


def _kept(
    question: Question, before: Known | None, found: Verdict, *, now: float, pace: Pace, retry_s: float
) -> Known:
    """For how long a verdict counts. An outage takes none back: the image is only looked at again sooner."""
    if not isinstance(found, Undecided):
        is_final = isinstance(found, Trusted) and question.names_digest
        return Known(found, now + (math.inf if is_final else pace.interval_s))
    wait_s = min(max(retry_s, found.retry_after_s or 0), pace.longest_s)
    failures = (before.failures if before else 0) + 1
    is_decided = before is not None and not isinstance(before.verdict, Undecided)
    return Known(before.verdict if before and is_decided else found, now + wait_s, failures)
