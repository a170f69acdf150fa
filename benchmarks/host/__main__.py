"""`python -m benchmarks.host`: measure, and print targets with what was reached.

A missed target is printed as such and is no failure: the figures depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import fields

from benchmarks.host import machine, report, startups
from benchmarks.host.courses import Courses
from benchmarks.host.sizes import Sizes
from benchmarks.host.targets import Results
from rig.base import processes
from rig.base.errors import RigError, Unavailable
from rig.base.progress import step


def main(arguments: list[str] | None = None) -> int:
    """Run it all; the exit code."""
    options = _parser().parse_args(arguments)
    sizes = Sizes(**{field.name: getattr(options, field.name) for field in fields(Sizes)})
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C does
    try:
        processes.sweep()
        results = measure(sizes)
    except KeyboardInterrupt:
        return 130
    except (RigError, Unavailable) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print((report.render_json if options.output == "json" else report.render_text)(sizes, results))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-host", description=__doc__)
    for field in fields(Sizes):
        parser.add_argument(f"--{field.name}", type=int, default=field.default, help="default %(default)s")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


def measure(sizes: Sizes) -> Results:
    """What starts on this machine, and what attaches in a virtual one."""
    times_s: dict[str, list[float]] = {}
    if sizes.starts:
        with step(f"{sizes.starts} starts of each command"):
            times_s = startups.measure(processes.run_folder("bench-host"), sizes.starts)
    return Results(times_s, machine.measure(sizes.rounds) if sizes.rounds else Courses())


if __name__ == "__main__":
    sys.exit(main())
