"""Finds out who signed images, one after the other, beside the work on SchedExts and never in its way."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import structlog

from schedkit.kube.backoff import backoff, roll
from schedkit.kube.controller import DONE, Controller, Observer, Result
from schedkit.kube.queue import KeyedQueue
from schedkit.kube.resources import Key
from schedkit.model.api.conditions import Reason
from schedkit.model.deploy.admission import question_of
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.verdicts import Distrusted, Question, Trusted, Undecided, Verdict
from schedkit.model.images.references import Digest, InvalidReference, parse_reference
from schedkit.model.trust.rules import Rules
from schedkit.sked.trust import confined, rules_folder
from schedkit.sked.trust.confined import BrokenOffError, Limits
from schedkit.sked.trust.messages import Answer, Request, believe_process
from schedkit.sked.trust.rules_folder import RuleFolder

_log = structlog.get_logger()

VERIFIER: Final = (sys.executable, "-m", "schedkit.sked.trust.verifier_process")
# a usual question takes half of it; beside a manager of usual size it stays below the limit of the pod
LIMITS: Final = Limits(time_s=125, memory=48 << 20, output=64 << 10)
# of the time between two looks at a tag: how long after a first failure, and at most after the tenth
_FIRST, _LONGEST = 1 / 40, 3
_SOON: Final = Result(1.0)
_MOST_VOUCHED: Final = 8


@dataclass(frozen=True, slots=True)
class Access:
    """How registries are reached."""

    auth_file: Path | None = None
    ca_file: Path | None = None
    insecure: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    verdict: Verdict
    good_until: float  # on the monotonic clock; infinite: what a digest means does not change
    failures: int = 0


class Verifications:
    """The verdicts about the images of all SchedExts, each looked at again now and then."""

    def __init__(
        self,
        folder: RuleFolder,
        access: Access,
        *,
        interval_s: float,
        command: Sequence[str] = VERIFIER,
        limits: Limits = LIMITS,
        observe: Observer | None = None,
        count: Callable[[str], None] | None = None,
        turn: asyncio.Lock | None = None,
    ) -> None:
        self._folder, self._access, self._interval_s = folder, access, interval_s
        self._command, self._limits = command, limits
        self._count = count or (lambda _: None)
        self._asked: dict[Key, Question] = {}
        self._askers: Counter[Question] = Counter()
        self._known: dict[Question, _Known] = {}
        self._vouched: dict[Key, tuple[str, tuple[Trusted, ...]]] = {}  # by which policy, and for what
        self._tell: Callable[[Key], None] = lambda _: None
        # one process at a time, whatever it does: two would need more memory than there is
        self._turn = turn or asyncio.Lock()
        # with the wait for one that is at it, and for a reader of rules
        whole_s = 2 * limits.time_s + rules_folder.LIMITS.time_s + 30
        self._asking: Controller[Key] = Controller(
            "verification", self._answer, queue=_in_turns(), workers=1, limit_s=whole_s, observe=observe
        )
        self._looking_again: Controller[Key] = Controller(
            "reverification", self.verify, queue=_in_turns(), workers=1, limit_s=whole_s, observe=observe
        )

    @property
    def controllers(self) -> tuple[Controller[Key], ...]:
        """What is new has a queue of its own: it does not wait behind registries that are asked once more."""
        return (self._asking, self._looking_again)

    def listen(self, listener: Callable[[Key], None]) -> None:
        """Have it told whose verdict is there, or is another."""
        self._tell = listener

    def complete(self, key: Key, observation: Observation) -> Observation:
        """With the rules of now, and with the verdict; one that is missing is asked for."""
        folder = self._folder
        ruled = replace(observation, rules=folder.rules, complaint=folder.complaint)
        question = question_of(ruled)
        self._ask(key, question)
        return self._with_verdict(key, question, ruled) if question else ruled

    def _with_verdict(self, key: Key, question: Question, ruled: Observation) -> Observation:
        known = self._known.get(question)
        verdict = known.verdict if known else None
        return replace(ruled, verdict=verdict, vouched=self._vouch(key, question.policy, verdict))

    def _vouch(self, key: Key, policy: str, verdict: Verdict | None) -> tuple[Trusted, ...]:
        """All good verdicts about what this SchedExt named, as long as the policy is the same, the last ones.

        Its pods may still run what a tag meant before it was moved, or what an earlier spec asked for.
        """
        by, good = self._vouched.get(key, (policy, ()))
        good = good if by == policy else ()
        if isinstance(verdict, Trusted):
            others = (each for each in good if each.verified.digest != verdict.verified.digest)
            good = (*others, verdict)[-_MOST_VOUCHED:]
        self._vouched[key] = (policy, good)
        return good

    def forget(self, key: Key) -> None:
        """The SchedExt is gone."""
        self._ask(key, None)
        self._vouched.pop(key, None)

    def _ask(self, key: Key, question: Question | None) -> None:
        before = self._asked.get(key)
        if question == before:
            return
        if question is not None:
            self._asked[key] = question
            self._askers[question] += 1
            self._pin(before, question)
            self._asking.queue.add(key)
        else:
            del self._asked[key]
        if before is not None:
            self._drop(before)

    def _pin(self, before: Question | None, question: Question) -> None:
        """What was verified stays so when pods are bound to it."""
        known = self._known.get(before) if before else None
        if before is None or known is None or not isinstance(known.verdict, Trusted):
            return
        if replace(before, pinned=known.verdict.verified.digest) == question:
            self._known.setdefault(question, known)

    def _drop(self, question: Question) -> None:
        self._askers[question] -= 1
        if not self._askers[question]:
            del self._askers[question]
            self._known.pop(question, None)

    async def _answer(self, key: Key) -> Result:
        """As `verify`, for what was not asked before."""
        result = await self.verify(key)
        if result.after_s is not None:
            self._looking_again.queue.add(key, after_s=result.after_s)
        return DONE

    async def verify(self, key: Key) -> Result:
        """Find out what is not known any more, and when to look again."""
        question, rules = self._asked.get(key), self._folder.rules
        if question is None:
            return DONE
        if rules is None or question.policy != rules.fingerprint:
            return _SOON  # it is asked anew by these rules, or they change back and it is asked as it stands
        before = self._known.get(question)
        if before is None or before.good_until <= time.monotonic():
            found = await self._verdict(question, rules, before.verdict if before else None)
            if question not in self._askers:
                return DONE  # nobody wants to know any more
            self._known[question] = self._kept(question, before, found)
            self._tell_news(question, before)
        return self._next_look(question)

    def _tell_news(self, question: Question, before: _Known | None) -> None:
        if before is not None and before.verdict == self._known[question].verdict:
            return
        for key, asked in tuple(self._asked.items()):
            if asked == question:
                self._tell(key)

    def _kept(self, question: Question, before: _Known | None, found: Verdict) -> _Known:
        """An outage takes no verdict back; it is only looked at sooner."""
        now = time.monotonic()
        if not isinstance(found, Undecided):
            lasts_s = float("inf") if isinstance(found, Trusted) and _is_fixed(question) else self._interval_s
            return _Known(found, now + lasts_s)
        failures = (before.failures if before else 0) + 1
        first_s, longest_s = self._interval_s * _FIRST, self._interval_s * _LONGEST
        wait_s = max(backoff(failures, first_s, longest_s, roll()), found.retry_after_s or 0)
        stays = before is not None and not isinstance(before.verdict, Undecided)
        return _Known(before.verdict if before and stays else found, now + min(wait_s, longest_s), failures)

    def _next_look(self, question: Question) -> Result:
        left_s = self._known[question].good_until - time.monotonic()
        return DONE if left_s == float("inf") else Result(max(0.0, left_s))

    async def _verdict(self, question: Question, rules: Rules, before: Verdict | None) -> Verdict:
        # the answer names it, so that a verdict can be told from anything that looks like one
        ticket = secrets.token_hex(16)
        request = self._request(ticket, question, rules, before)
        try:
            answer = await self._run(request)
            found = understood(answer, ticket, question, before)
        except BrokenOffError as error:
            words = "the process that verifies signatures broke off, and is started again later"
            found = Undecided(Reason.VERIFIER_FAILED, f"{words}: {error}")
        self._count(type(found).__name__.lower())
        _log.info("image_verified", image=question.image, outcome=type(found).__name__.lower(), **_why(found))
        return found

    async def _run(self, request: bytes) -> bytes:
        async with self._turn:
            inherited = confined.environment(os.environ)
            return await confined.run(self._command, request, self._limits, inherited)

    def _request(self, ticket: str, question: Question, rules: Rules, before: Verdict | None) -> bytes:
        access = self._access
        asked = Request(
            ticket=ticket,
            image=question.image,
            pinned=str(question.pinned) if question.pinned else None,  # msgspec knows no kinds of str
            known=str(before.verified.digest) if isinstance(before, Trusted) else None,
            policy=rules.document,
            files=dict(rules.files),
            auth_file=str(access.auth_file) if access.auth_file else None,
            ca_file=str(access.ca_file) if access.ca_file else None,
            insecure=access.insecure,
        )
        return msgspec.json.encode(asked)


def _in_turns() -> KeyedQueue[Key]:
    """Many images of one namespace, in a registry that takes its time, hold up that namespace alone."""
    return KeyedQueue(group_of=lambda key: key.namespace)


def understood(data: bytes, ticket: str, question: Question, before: Verdict | None) -> Verdict:
    """The verdict in what a verifier wrote; `BrokenOffError` if it is none."""
    try:
        answer = msgspec.json.decode(data, type=Answer)
        if answer.ticket != ticket:
            raise BrokenOffError("its answer is to another request")
        return _verdict_in(answer, question, before)
    except (msgspec.DecodeError, InvalidReference, RecursionError) as error:
        raise BrokenOffError(f"its answer is not one: {error}") from error


def _verdict_in(answer: Answer, question: Question, before: Verdict | None) -> Verdict:
    match answer.kind:
        case "distrusted":
            return Distrusted(answer.step, answer.why)
        case "unreachable":
            return Undecided(Reason.REGISTRY_UNREACHABLE, answer.why, answer.retry_after_s)
        case "known" if isinstance(before, Trusted):
            return replace(before, current=Digest(answer.current or before.current))
        case "trusted":
            return _trusted(answer, question)
    raise BrokenOffError(f"its answer is not one: {answer.kind[:40]!r}")


def _trusted(answer: Answer, question: Question) -> Trusted:
    if answer.verdict is None:
        raise BrokenOffError("its answer is not one: it says nothing about who signed")
    asked = parse_reference(question.image)
    wanted = question.pinned or asked.digest
    verified = believe_process(answer.verdict, repository=str(asked.repository), wanted=wanted)
    if verified is None:
        raise BrokenOffError("its verdict is about another image")
    current = Digest(answer.current or verified.digest)
    return Trusted(verified, current, frozenset(map(Digest, answer.parts)))


def _is_fixed(question: Question) -> bool:
    """Whether the user named a digest, which means the same for ever."""
    return "@" in question.image


def _why(found: Verdict) -> dict[str, str]:
    return {} if isinstance(found, Trusted) else {"reason": found.why}
