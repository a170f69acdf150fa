"""`python -m rig`: the rigs from the command line; the Makefile gives each command a target."""

from __future__ import annotations

import argparse
import signal
import sys

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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rig", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="obtain every part into the cache")
    commands.add_parser("demo", help="run the operator on a control plane with fake nodes")
    commands.add_parser("demo-kernel", help="attach a scheduler in a VM and show what the kernel says")
    cluster = commands.add_parser("cluster", help="keep a cluster until Ctrl-C")
    cluster.add_argument("--nodes", type=int, default=0, choices=range(3), help="real nodes in VMs")
    machine = commands.add_parser("vm", help="run a command in a VM")
    machine.add_argument("--kernel", default="7", choices=kernels.KINDS, help="the kind of kernel")
    machine.add_argument("--timeout", type=float, default=600, metavar="SECONDS")
    machine.add_argument("shell_command", metavar="COMMAND")
    return parser


def _execute(options: argparse.Namespace) -> int:
    # imported here: fetching must not need what the other commands need
    from rig import byhand, demo, parts

    match options.command:
        case "fetch":
            return parts.fetch()
        case "cluster":
            byhand.keep_cluster(options.nodes)
            return 0
        case "vm":
            return byhand.run_in_vm(options.shell_command, kind=options.kernel, timeout_s=options.timeout)
        case "demo":
            return demo.show()
        case _:
            return byhand.demonstrate()


if __name__ == "__main__":
    sys.exit(main())
