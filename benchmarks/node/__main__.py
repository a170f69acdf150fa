"""`python -m benchmarks.node`: measure, and print targets with what was reached.

A missed target is printed as such and is no failure: the figures depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import signal
import sys

from benchmarks.node import ejects, report
from benchmarks.node.measuring import Bench, crowded
from benchmarks.node.targets import CROWDED, PLAIN, WITH_METRICS, Idle, Results, Sizes
from rig.base import processes
from rig.base.errors import RigError, Unavailable
from rig.cluster import controlplane
from rig.operator import agents


def main(arguments: list[str] | None = None) -> int:
    """Run it all; the exit code."""
    options = _parser().parse_args(arguments)
    sizes = Sizes(options.idle_s, options.processes, options.files, options.nodes, options.ejects)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C does
    try:
        processes.sweep()
        results = run(sizes)
    except KeyboardInterrupt:
        return 130
    except (RigError, Unavailable) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print((report.render_json if options.output == "json" else report.render_text)(sizes, results))
    return 0


def _parser() -> argparse.ArgumentParser:
    usual = Sizes()
    parser = argparse.ArgumentParser(prog="bench-node", description=__doc__)
    parser.add_argument(
        "--idle-s", type=int, default=usual.idle_s, help="of each agent; 0 leaves that part out"
    )
    parser.add_argument("--processes", type=int, default=usual.processes, help="in the crowd")
    parser.add_argument("--files", type=int, default=usual.files, help="that the crowd has open")
    parser.add_argument("--nodes", type=int, default=usual.nodes, help="whose kernels are replayed")
    parser.add_argument("--ejects", type=int, default=usual.ejects, help="on them; 0 leaves that part out")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


def run(sizes: Sizes) -> Results:
    """All that is not left out."""
    idle = measure_idle(sizes) if sizes.idle_s else []
    ejects_s = ejects.measure(sizes.nodes, sizes.ejects) if sizes.ejects else []
    return Results(idle, ejects_s)


def measure_idle(sizes: Sizes) -> list[Idle]:
    """One agent after the other, on the same machine."""
    with controlplane.running("bench-node") as cluster:
        agents.install(cluster)
        agents.install_metrics(cluster)
        bench = Bench(cluster, sizes)
        idle = [bench.idle(PLAIN), bench.idle(WITH_METRICS, has_metrics=True)]
        with crowded(cluster, sizes):
            idle.append(bench.idle(CROWDED))
    return idle


if __name__ == "__main__":
    sys.exit(main())
