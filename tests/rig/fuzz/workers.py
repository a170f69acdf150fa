"""The run: every core takes its share of cases, and whatever is no refusal becomes a finding.

A case is bounded in processor time and memory. One that ends its process, or never ends, is found by the
process that watches, which knows the number of the case that every worker is at.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from rig.fuzz import targets, verifications
from rig.fuzz.mutations import Mutator
from rig.fuzz.targets import Corpus, Target
from schedkit.model.trust.steps import Refusal
from schedkit.oci.sigstore import keys, trusted_root

LONGEST_S = 1.0
MOST_MIB = 100
STUCK_S = 120.0
_FORGIVEN_MIB = 8
_MOST_FINDINGS = 20
_BARRIER = 2 << 30
"""Bytes of address space that a worker may have, so that the machine survives a finding."""
VERIFICATION = "whole verifications"


@dataclass(frozen=True)
class Plan:
    """How much, and from which seed."""

    seed: int
    inputs: int
    verifications: int
    processes: int
    folder: Path

    @property
    def total(self) -> int:
        return self.inputs + self.verifications


@dataclass(frozen=True)
class Finding:
    """A case that was not refused as it should be."""

    target: str
    number: int
    what: str
    where: str = ""
    input: bytes = b""
    corpus: Mapping[str, Any] | None = None
    """What it was judged by; None: it took its process along, and the input with it."""


@dataclass
class Tally:
    """What became of the cases."""

    cases: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)
    signatures: int = 0
    """Whole verifications in which the signer's signature was checked."""
    logs: int = 0
    """Whole verifications in which the signature of a log was checked."""
    slowest: tuple[float, str, int] = (0.0, "", 0)
    growth_mib: float = 0.0

    def add(self, other: Tally) -> None:
        for mine, theirs in ((self.cases, other.cases), (self.refused, other.refused)):
            mine.update(theirs)
        self.steps.update(other.steps)
        self.signatures += other.signatures
        self.logs += other.logs
        self.slowest = max(self.slowest, other.slowest)
        self.growth_mib = max(self.growth_mib, other.growth_mib)


class Case:
    """One input, and what takes it."""

    def __init__(
        self, number: int, target: str, run: Callable[[], object], refusals: tuple[type[Exception], ...]
    ) -> None:
        self.number, self.target, self.run, self.refusals = number, target, run, refusals
        self.input: Callable[[], bytes] = bytes


class Maker:
    """Makes the case of a number: an input for a parser, or a whole verification."""

    def __init__(self, plan: Plan, corpus: Corpus, folder: Path) -> None:
        self._plan = plan
        self.targets = targets.targets(corpus, folder)
        self._weights = [target.weight for target in self.targets]
        self._bench = verifications.Bench()

    def case(self, number: int) -> Case:
        random = Random(f"{self._plan.seed} {number}")
        if number >= self._plan.inputs:
            return verification_case(number, self._bench.attempt(random))
        (target,) = random.choices(self.targets, self._weights)
        return input_case(number, target, target.mutated(Mutator(random)))


def input_case(number: int, target: Target, data: bytes) -> Case:
    case = Case(number, target.name, lambda: target.parse(data), target.refusals)
    case.input = lambda: data
    return case


def verification_case(number: int, attempt: verifications.Attempt) -> Case:
    case = Case(number, VERIFICATION, attempt.verify, verifications.REFUSALS)
    case.input = lambda: verifications.to_json(attempt)
    return case


class Judge:
    """Runs cases one after the other, and counts."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._checks: Counter[str] = Counter()
        self._rest_mib = _peak_mib()
        # verification asks the module for it; what checks logs has its own name for it
        vars(trusted_root)["is_signed"] = self._counting(keys.is_signed, "log")
        vars(keys)["is_signed"] = self._counting(keys.is_signed, "signer")

    def _counting(self, check: Callable[..., bool], whose: str) -> Callable[..., bool]:
        def counted(*words: object, **flags: bool) -> bool:
            self._checks[whose] += 1
            return check(*words, **flags)

        return counted

    def judge(self, case: Case) -> Iterator[tuple[str, str]]:
        """Run it; every way in which it was not as it should be, and where."""
        self._checks.clear()
        before_mib, began = self._rested_mib(), time.process_time()
        try:
            case.run()
        except case.refusals as refusal:
            self._note_refusal(case, refusal)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
            yield f"{type(error).__name__}: {error}"[:300], "".join(traceback.format_exception(error)[-6:])
        yield from self._costs(case, time.process_time() - began, _peak_mib() - before_mib)
        self._note_checks(case)

    def _note_refusal(self, case: Case, refusal: Exception) -> None:
        self.tally.refused[case.target] += 1
        if case.target == VERIFICATION:
            self.tally.steps[int(refusal.step) if isinstance(refusal, Refusal) else 0] += 1

    def _note_checks(self, case: Case) -> None:
        self.tally.cases[case.target] += 1
        if case.target == VERIFICATION:
            self.tally.signatures += self._checks["signer"] > 0
            self.tally.logs += self._checks["log"] > 0

    def _costs(self, case: Case, cpu_s: float, growth_mib: float) -> Iterator[tuple[str, str]]:
        self.tally.slowest = max(self.tally.slowest, (cpu_s, case.target, case.number))
        self.tally.growth_mib = max(self.tally.growth_mib, growth_mib)
        if cpu_s > LONGEST_S:
            yield f"it took {cpu_s:.1f} s of the processor; {LONGEST_S:g} s is the most", ""
        if growth_mib > MOST_MIB:
            yield f"memory grew by {growth_mib:.0f} MiB; {MOST_MIB} is the most", ""

    def _rested_mib(self) -> float:
        """The highest memory so far, without what making the case took: the kernel is told to forget it."""
        if _peak_mib() > self._rest_mib + _FORGIVEN_MIB:
            Path("/proc/self/clear_refs").write_text("5")
            self._rest_mib = _peak_mib()
        return _peak_mib()


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Worker:
    """One process with its share of the cases; `at` and `done` are shared with the one that watches."""

    def __init__(self, plan: Plan, share: int) -> None:
        context = multiprocessing.get_context("fork")
        self.plan, self.share = plan, share
        self.at = context.Value("q", -1, lock=False)
        self.done = context.Value("q", 0, lock=False)
        self.ends = context.Value("b", 0, lock=False)
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(
            target=self._work, args=(theirs, os.getpid()), daemon=True
        )
        self.process.start()
        theirs.close()
        self.has_told = False
        self._moved = time.monotonic()
        self._seen = -1

    def is_stuck(self) -> bool:
        """Whether it has been at the same case for too long; what is before the first does not count."""
        if self.at.value != self._seen:
            self._seen, self._moved = self.at.value, time.monotonic()
        return self._seen >= 0 and time.monotonic() - self._moved > STUCK_S

    def _work(self, pipe: Connection, parent: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that watches ends us
        resource.setrlimit(resource.RLIMIT_AS, (_BARRIER, _BARRIER))
        folder = self.plan.folder / f"worker-{self.share}"
        folder.mkdir(parents=True)
        corpus = targets.make_corpus()
        maker, judge = Maker(self.plan, corpus, folder), Judge()
        for number in range(self.share, self.plan.total, self.plan.processes):
            if os.getppid() != parent:
                return
            if self.ends.value:
                break
            self.at.value = number
            case = maker.case(number)
            for what, where in judge.judge(case):
                pipe.send(Finding(case.target, number, what, where, case.input(), corpus.to_json()))
            self.done.value += 1
        pipe.send(judge.tally)


@dataclass
class Outcome:
    """What a run found."""

    tally: Tally = field(default_factory=Tally)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    was_interrupted: bool = False


Progress = Callable[[int, Sequence[Finding]], None]


def run(plan: Plan, progress: Progress) -> Outcome:
    """All cases; ends early when there is more to mend than anybody reads at once."""
    outcome, began = Outcome(), time.monotonic()
    with _workers(plan) as workers:
        try:
            _watch(workers, outcome, progress)
        except KeyboardInterrupt:
            outcome.was_interrupted = True
            for worker in workers:
                worker.ends.value = 1
            _watch([worker for worker in workers if not worker.has_told], outcome, progress)
    outcome.seconds = time.monotonic() - began
    return outcome


def _watch(workers: Sequence[Worker], outcome: Outcome, progress: Progress) -> None:
    """Hear what they have to say, until they have told all or there is enough to mend."""
    while len(outcome.findings) < _MOST_FINDINGS:
        waiting: dict[object, Worker] = {worker.pipe: worker for worker in workers if not worker.has_told}
        if not waiting:
            return
        for pipe in wait([worker.pipe for worker in waiting.values()], timeout=1):
            waiting[pipe].has_told = _take(waiting[pipe], outcome)
        for worker in waiting.values():
            if not worker.has_told and worker.is_stuck():
                outcome.findings.append(_lost(worker, f"it did not end within {STUCK_S:g} s"))
                worker.has_told = True
        progress(sum(worker.done.value for worker in workers), outcome.findings)


@contextmanager
def _workers(plan: Plan) -> Iterator[list[Worker]]:
    workers = [Worker(plan, share) for share in range(plan.processes)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _take(worker: Worker, outcome: Outcome) -> bool:
    """What a worker has to say; whether that was all."""
    try:
        said = worker.pipe.recv()
    except EOFError:
        worker.process.join()
        outcome.findings.append(_lost(worker, f"it ended its process with {worker.process.exitcode}"))
        return True
    if isinstance(said, Tally):
        outcome.tally.add(said)
        return True
    if said.where not in {known.where for known in outcome.findings if known.where}:  # each place once
        outcome.findings.append(said)
    return False


def _lost(worker: Worker, what: str) -> Finding:
    number = worker.at.value
    kind = "a parser" if number < worker.plan.inputs else VERIFICATION
    return Finding(kind, number, what)
