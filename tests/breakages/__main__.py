"""`python -m breakages`: break a copy of the tree in one place after another, and see the tests fail."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import groupby

from breakages import listed, outcomes
from breakages.copies import Copy
from breakages.listed import Breakage
from rig.base import processes
from rig.base.errors import RigError, Unavailable
from rig.base.progress import say
from rig.session import tiers


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        processes.sweep()
        found = listed.chosen(listed.read(), options.names, options.tier)
        uncaught = _uncaught(found)
    except KeyboardInterrupt:
        return 130
    except (RigError, Unavailable) as error:
        say(str(error))
        return 1
    say(f"{len(found) - len(uncaught)} of {len(found)} caught")
    return 1 if uncaught else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="breakages", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="names or numbers of breakages; all by default"
    )
    parser.add_argument("--tier", choices=tiers.TIERS, help="only those that tests of this tier catch")
    return parser


def _uncaught(found: Sequence[Breakage]) -> Sequence[Breakage]:
    for each in found:
        each.applied_to((listed.ROOT / each.file).read_text())  # or raises, before anything takes long
    with Copy() as copy:
        if not _is_whole(copy, found):
            raise RigError("nothing was broken yet: mend these tests first")
        return [each for each in found if not _is_caught(copy, each)]


def _is_whole(copy: Copy, found: Sequence[Breakage]) -> bool:
    """Whether all the tests pass as long as nothing is broken."""
    return all(_passes(copy, tier, list(group)) for tier, group in groupby(found, lambda each: each.tier))


def _passes(copy: Copy, tier: str, group: Sequence[Breakage]) -> bool:
    """Whether the tests of a tier do; they run together."""
    tests = list(dict.fromkeys(each.test for each in group))
    say(f"{tier}: {len(tests)} tests on the tree as it is")
    phases = copy.run(tests)
    complaints = [f"{test}: {why}" for test in tests if (why := outcomes.why_not_passed(test, phases))]
    for complaint in complaints:
        say(f"NOTHING IS BROKEN, and yet {complaint}")
    if complaints:
        say(f"pytest said:\n{copy.said}")
    return not complaints


def _is_caught(copy: Copy, breakage: Breakage) -> bool:
    began = time.monotonic()
    with copy.broken(breakage):
        why = outcomes.why_not_caught(breakage.test, copy.run([breakage.test], until_failure=True))
    took = f"{time.monotonic() - began:.1f} s"
    if why is None:
        say(f"{breakage.name} ({breakage.file}): caught by {breakage.test}, {took}")
    else:
        say(f"{breakage.name} ({breakage.file}): NOT CAUGHT by {breakage.test}, {took}: {why}\n{copy.said}")
    return why is None


if __name__ == "__main__":
    sys.exit(main())
