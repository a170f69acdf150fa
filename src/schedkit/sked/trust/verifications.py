"""Finds out who signed images, one after the other, beside the work on SchedExts and never in its way."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
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
from schedkit.model.deploy.verdicts import (
    Distrusted,
    Pace,
    Question,
    Trusted,
    Undecided,
    Verdict,
    VerdictBook,
)
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
_SOON: Final = Result(1.0)


@dataclass(frozen=True, slots=True)
class Access:
    """How registries are reached."""

    auth_file: Path | None = None
    ca_file: Path | None = None
    insecure: tuple[str, ...] = ()


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
        self._folder, self._access, self._pace = folder, access, Pace(interval_s)
        self._command, self._limits = command, limits
        self._count = count or (lambda _: None)
        self._book: VerdictBook[Key] = VerdictBook()
        self._tell: Callable[[Key], None] = lambda _: None
        # one process at a time, whatever it does: two would need more memory than there is
        self._turn = turn or asyncio.Lock()
        self.controller: Controller[Key] = Controller(
            "verification",
            self.verify,
            # many images of one namespace, in a registry that takes its time, hold up that namespace alone
            queue=KeyedQueue(group_of=lambda key: key.namespace),
            workers=1,
            # with the wait for a reader of rules
            limit_s=limits.time_s + rules_folder.LIMITS.time_s + 30,
            observe=observe,
        )

    def listen(self, listener: Callable[[Key], None]) -> None:
        """Have it told whose verdict is there, or is another."""
        self._tell = listener

    def look(self, key: Key, observation: Observation) -> Observation:
        """With the rules of now, and with what is known about the image; nobody is asked."""
        folder = self._folder
        ruled = replace(observation, rules=folder.rules, complaint=folder.complaint)
        question = question_of(ruled)
        if question is None:
            return ruled
        vouched = self._book.vouched_for(key, question.policy)
        return replace(ruled, verdict=self._book.verdict(key, question), vouched=vouched)

    def ask(self, key: Key, question: Question | None) -> None:
        """Have it found out for the SchedExt from now on, and nothing else; None: nothing at all."""
        if question == self._book.asked.get(key):
            return
        self._book = self._book.asking(key, question)
        if question is not None:
            # what is new does not wait behind registries that are asked once more
            self.controller.queue.add(key, urgent=True)

    def forget(self, key: Key) -> None:
        """The SchedExt is gone."""
        self._book = self._book.forgetting(key)

    async def verify(self, key: Key) -> Result:
        """Find out what is not known any more, and when to look again."""
        question, rules = self._book.asked.get(key), self._folder.rules
        if question is None:
            return DONE
        if rules is None or question.policy != rules.fingerprint:
            return _SOON  # it is asked anew by these rules, or they change back and it is asked as it stands
        if self._book.is_due(question, time.monotonic()):
            known = self._book.known.get(question)
            self._learn(question, await self._verdict(question, rules, known.verdict if known else None))
        return self._next_look(question)

    def _learn(self, question: Question, found: Verdict) -> None:
        before, pace = self._book, self._pace
        failures = before.failures(question) + 1
        retry_s = backoff(failures, pace.first_retry_s, pace.longest_s, roll())
        self._book = before.learning(question, found, now=time.monotonic(), pace=pace, retry_s=retry_s)
        for key in self._book.news_since(before, question):
            self._tell(key)

    def _next_look(self, question: Question) -> Result:
        known = self._book.known.get(question)  # None: nobody wants to know any more
        if known is None or known.good_until == float("inf"):
            return DONE
        return Result(max(0.0, known.good_until - time.monotonic()))

    async def _verdict(self, question: Question, rules: Rules, before: Verdict | None) -> Verdict:
        # the answer names it, so that a verdict can be told from anything that looks like one
        ticket = secrets.token_hex(16)
        request = self._request(ticket, question, rules, before)
        try:
            answer = await self._run(request)
            found = understood(answer, ticket, question, before)
        except BrokenOffError as error:
            words = "the process that verifies signatures failed, and is started again later"
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


def understood(data: bytes, ticket: str, question: Question, before: Verdict | None) -> Verdict:
    """The verdict in what a verifier wrote; `BrokenOffError` if it is none."""
    try:
        answer = msgspec.json.decode(data, type=Answer)
        if answer.ticket != ticket:
            raise BrokenOffError("its answer is to another request")
        return _verdict_in(answer, question, before)
    except (msgspec.DecodeError, InvalidReference, RecursionError) as error:
        raise BrokenOffError(f"its answer cannot be understood: {error}") from error


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
    raise BrokenOffError(f"its answer is of an unknown kind: {answer.kind[:40]!r}")


def _trusted(answer: Answer, question: Question) -> Trusted:
    if answer.verdict is None:
        raise BrokenOffError("its answer does not say who signed the image")
    asked = parse_reference(question.image)
    wanted = question.pinned or asked.digest
    verified = believe_process(answer.verdict, repository=str(asked.repository), wanted=wanted)
    if verified is None:
        raise BrokenOffError("its verdict is about another image")
    current = Digest(answer.current or verified.digest)
    return Trusted(verified, current, frozenset(map(Digest, answer.parts)))


def _why(found: Verdict) -> dict[str, str]:
    return {} if isinstance(found, Trusted) else {"reason": found.why}
