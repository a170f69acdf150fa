"""`python -m rig`: the rigs from the command line; the Makefile gives each command a target."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable

from rig import kernels, processes
from rig.errors import RigError, Unavailable


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C does
    try:
        processes.sweep()
        return _execute(options)
    except KeyboardInterrupt:
        return 0 if options.command == "cluster" else 130  # to interrupt a cluster is to end it well
    except (RigError, Unavailable) as error:
        print(f"rig: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read the output has left; Python shall not try again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rig", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="obtain every part into the cache")
    commands.add_parser("demo", help="run the operator on a control plane with fake nodes")
    commands.add_parser("demo-kernel", help="attach a scheduler in a VM and show what the kernel says")
    cluster = commands.add_parser("cluster", help="keep a cluster until Ctrl-C")
    cluster.add_argument("--nodes", type=_one_of("NODES", "012"), default="0", help="real nodes in VMs")
    machine = commands.add_parser("vm", help="run a command in a VM")
    machine.add_argument("--kernel", type=_one_of("KERNEL", kernels.KINDS), default="7", help="its kind")
    machine.add_argument("--timeout", type=_seconds, default=600, metavar="SECONDS")
    machine.add_argument("shell_command", metavar="COMMAND")
    return parser


def _one_of(variable: str, accepted: Iterable[str]) -> Callable[[str], str]:
    """A type for argparse whose complaint names the variable of make that people set."""

    def parse(text: str) -> str:
        if text in (known := list(accepted)):
            return text
        raise argparse.ArgumentTypeError(
            f"{variable}={text!r} is not known; set {variable}={'|'.join(known)}"
        )

    return parse


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if 0 < seconds < math.inf:
        return seconds
    raise argparse.ArgumentTypeError(f"TIMEOUT={text!r} is no number of seconds; set for example TIMEOUT=600")


def _execute(options: argparse.Namespace) -> int:
    # imported here: fetching must not need what the other commands need
    from rig import byhand, demo, parts

    match options.command:
        case "fetch":
            return parts.fetch()
        case "cluster":
            byhand.keep_cluster(int(options.nodes))
            return 0
        case "vm":
            return byhand.run_in_vm(options.shell_command, kind=options.kernel, timeout_s=options.timeout)
        case "demo":
            return demo.show()
        case _:
            return byhand.demonstrate()


if __name__ == "__main__":
    sys.exit(main())
