"""`python -m rig.fuzz`: mutated inputs through every parser, and mutated signatures through verification."""

from __future__ import annotations

import argparse
import base64
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rig.base import processes
from rig.fuzz import targets, verifications, workers
from rig.fuzz.targets import Corpus
from rig.fuzz.workers import VERIFICATION, Finding, Outcome, Plan

_EVERY_S = 5.0
ROOT = Path(__file__).parents[3]


def main(arguments: list[str] | None = None) -> int:
    """Run it all, or one finding again; the exit code."""
    options = _parser().parse_args(arguments)
    if options.again is not None:
        return again(options.again)
    plan = Plan(
        options.seed, options.inputs, options.verifications, options.processes, processes.run_folder("fuzz")
    )
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell ignores the second for what runs behind it
        signal.signal(number, signal.default_int_handler)
    outcome = workers.run(plan, Teller(plan, options.findings).tell)
    print(render(plan, outcome))
    return 130 if outcome.was_interrupted else 1 if outcome.findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of all choices; default %(default)s")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="for the parsers; default %(default)s")
    parser.add_argument("--verifications", type=int, default=20_000, help="default %(default)s")
    parser.add_argument("--processes", type=int, default=2, help="default %(default)s")
    parser.add_argument(
        "--findings", type=Path, default=ROOT / "build/fuzz", help="where inputs that were found are kept"
    )
    parser.add_argument("--again", type=Path, metavar="FILE", help="try one input that was kept")
    return parser


class Teller:
    """Says now and then how far it is, and at once what was found."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._began = self._last = time.monotonic()
        self._told = 0

    def tell(self, done: int, findings: Sequence[Finding]) -> None:
        for finding in findings[self._told :]:
            print(
                "\n".join(_described(self._plan, finding, _keep(finding, self._plan, self._folder))),
                flush=True,
            )
        self._told = len(findings)
        now = time.monotonic()
        if now - self._last >= _EVERY_S:
            self._last = now
            self._tell_progress(done, done / (now - self._began))

    def _tell_progress(self, done: int, speed: float) -> None:
        total = self._plan.total
        share = f"{done:,} of {total:,} cases ({100 * done / total:.0f} %)"
        print(f"[fuzz] {share}, {speed:,.0f} a second, {self._told} findings", file=sys.stderr, flush=True)


def _keep(finding: Finding, plan: Plan, folder: Path) -> Path | None:
    """The input in a file, with all that it was judged by; None for one that took its process along."""
    if finding.corpus is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{plan.seed}-{finding.number}.json"
    kept = {
        "target": finding.target,
        "what": finding.what,
        "input": base64.b64encode(finding.input).decode(),
        "corpus": finding.corpus,
    }
    file.write_text(json.dumps(kept))
    return file


def again(file: Path) -> int:
    """Try an input that was kept; raises as it did then."""
    kept = json.loads(file.read_text())
    data, name = base64.b64decode(kept["input"]), kept["target"]
    if name == VERIFICATION:
        case = workers.verification_case(0, verifications.from_json(data))
    else:
        known = targets.targets(Corpus.from_json(kept["corpus"]), processes.run_folder("fuzz"))
        case = workers.input_case(0, next(one for one in known if one.name == name), data)
    began = time.process_time()
    try:
        print(f"{name}: accepted: {case.run()!r}"[:500])
    except case.refusals as refusal:
        print(f"{name}: refused: {refusal}"[:500])
    print(f"{time.process_time() - began:.3f} s of the processor")
    return 0


def render(plan: Plan, outcome: Outcome) -> str:
    """What was tried, what became of it, and what it cost."""
    tally = outcome.tally
    ended = "interrupted after" if outcome.was_interrupted else "all of"
    done = f"{ended} {sum(tally.cases.values()):,} cases in {outcome.seconds:.0f} s"
    lines = [f"seed {plan.seed}: {done}"]
    lines += [
        f"  {name:<20}{count:>10,}  {tally.refused[name]:>10,} refused"
        for name, count in sorted(tally.cases.items())
    ]
    lines += _verifications(outcome)
    slowest, target, number = tally.slowest
    lines.append(f"slowest: {1000 * slowest:.0f} ms of the processor ({target}, case {number})")
    lines.append(f"memory: grew by {tally.growth_mib:.0f} MiB at most")
    lines.append(f"{len(outcome.findings)} findings")
    return "\n".join(lines)


def _verifications(outcome: Outcome) -> list[str]:
    tally = outcome.tally
    count = tally.cases[VERIFICATION]
    if not count:
        return []
    steps = ", ".join(
        f"{step or 'registry or root'}: {times:,}" for step, times in sorted(tally.steps.items())
    )
    share = f"{tally.signatures:,} ({100 * tally.signatures / count:.0f} %)"
    return [
        f"of {count:,} whole verifications {share} reached the check of the signer's signature",
        f"  and {tally.logs:,} that of a log's; {count - tally.refused[VERIFICATION]:,} were accepted",
        f"  refused at step {steps}",
    ]


def _described(plan: Plan, finding: Finding, file: Path | None) -> list[str]:
    flags = f"--seed {plan.seed} --inputs {plan.inputs} --verifications {plan.verifications}"
    command = f"--again {file}" if file else f"{flags} --processes {plan.processes}"
    return [
        f"FOUND in {finding.target}, seed {plan.seed}, case {finding.number}: {finding.what}",
        *(f"    {line}" for line in finding.where.splitlines()),
        f"    again: PYTHONPATH=tests .venv/bin/python -m rig.fuzz {command}",
    ]


if __name__ == "__main__":
    sys.exit(main())
