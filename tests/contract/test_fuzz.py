"""A share of what `make fuzz` does, and the proof that it would find what it looks for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rig.base import processes
from rig.fuzz import __main__ as fuzz
from rig.fuzz import targets, verifications, workers
from rig.fuzz.targets import Corpus, Target
from rig.fuzz.workers import VERIFICATION, Finding, Outcome, Plan
from schedkit.model.trust.steps import Step


@pytest.fixture
def plan() -> Plan:
    return Plan(seed=1, inputs=8_000, verifications=250, processes=2, folder=processes.run_folder("fuzz"))


def quietly(_done: int, _findings: Sequence[Finding]) -> None:
    """Tell nobody."""


def test_nothing_but_refusals_comes_of_broken_inputs(plan: Plan) -> None:
    outcome = workers.run(plan, quietly)

    assert [finding.what for finding in outcome.findings] == []
    tally = outcome.tally
    assert sum(tally.cases.values()) == plan.total
    assert min(tally.refused[name] for name in tally.cases if name not in ("verdicts", "waits")) > 0
    assert tally.signatures >= tally.cases[VERIFICATION] / 2
    assert {Step.FORMAT, Step.SUBJECT, Step.ENTRY, Step.SIGNATURE, Step.SIGNER} <= set(tally.steps)


def with_parser(monkeypatch: pytest.MonkeyPatch, parse: Callable[[bytes], object]) -> None:
    """Let the only parser be this one."""
    good = targets.targets

    def broken(corpus: Corpus, folder: Path) -> tuple[Target, ...]:
        return (replace(good(corpus, folder)[0], name="broken", parse=parse),)

    monkeypatch.setattr(targets, "targets", broken)


def found(plan: Plan) -> Outcome:
    return workers.run(replace(plan, inputs=3, verifications=0), quietly)


def careless(data: bytes) -> object:
    return {b"{": 1}[data[-1:]]


def slow(_data: bytes) -> None:
    ends = time.process_time() + 1.1 * workers.LONGEST_S
    while time.process_time() < ends:
        pass


def greedy(_data: bytes) -> int:
    return len(bytearray((workers.MOST_MIB + 60) << 20))


def deadly(_data: bytes) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def endless(_data: bytes) -> None:
    time.sleep(600)


@pytest.mark.parametrize(
    ("parse", "sentence"),
    [
        pytest.param(careless, "KeyError", id="an error that is no refusal"),
        pytest.param(slow, "s of the processor", id="an input that takes long"),
        pytest.param(greedy, "memory grew", id="an input that takes much memory"),
        pytest.param(deadly, "ended its process with -9", id="an input that ends the process"),
        pytest.param(endless, "did not end", id="an input that never ends"),
    ],
)
def test_a_parser_that_does_not_keep_its_promise_is_found(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, parse: Callable[[bytes], object], sentence: str
) -> None:
    with_parser(monkeypatch, parse)
    monkeypatch.setattr(workers, "STUCK_S", 8.0 if parse is endless else 60.0)

    outcome = found(replace(plan, processes=1))

    assert sentence in outcome.findings[0].what


def test_a_finding_is_told_with_a_command_that_shows_it_again(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_parser(monkeypatch, careless)
    words = ["--seed", "7", "--inputs", "3", "--verifications", "0", "--findings", str(tmp_path)]

    code = fuzz.main(words)
    printed = capsys.readouterr().out
    (file,) = tmp_path.iterdir()

    assert code == 1
    assert "FOUND in broken, seed 7, case " in printed
    assert f"-m rig.fuzz --again {file}" in printed
    with pytest.raises(KeyError):
        fuzz.main(["--again", str(file)])


def test_an_image_that_nobody_signed_and_that_is_accepted_is_found(plan: Plan) -> None:
    """The oracle of whole verifications: it knows which image nobody signed."""
    bench = workers.Maker(replace(plan, inputs=0), targets.make_corpus(), plan.folder)
    attempts = (bench.case(number) for number in range(200))

    accepted = next(case for case in attempts if ends_well(case))
    forged = replace(verifications.from_json(accepted.input()), must_be_refused=True)

    with pytest.raises(AssertionError, match="nobody signed"):
        forged.verify()


def ends_well(case: workers.Case) -> bool:
    try:
        case.run()
    except case.refusals:
        return False
    return True
