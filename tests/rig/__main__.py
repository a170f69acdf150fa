"""`python -m rig`: the rigs from the command line; the Makefile gives each command a target."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from rig.base import cache, hangups, processes
from rig.base.errors import RigError, Unavailable, of_full_disk
from rig.base.progress import say
from rig.build import recipes
from rig.cluster import minors
from rig.guest import kernels


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    _listen_for_the_end()
    try:
        processes.sweep()
        _require(options)
        return _execute(options)
    except KeyboardInterrupt:
        say("everything is stopped")
        return 0 if options.command == "cluster" else 130  # to interrupt a cluster is to end it well
    except (RigError, Unavailable) as error:
        print(f"rig: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read the output has left; Python shall not try again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if (known := of_full_disk(error, cache.root())) is None:
            raise
        print(f"rig: {known}", file=sys.stderr)
        return 1


def _listen_for_the_end() -> None:
    """SIGTERM, and a terminal that is closed, end it as cleanly as Ctrl-C does; each is answered at once."""
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in a shell's background jobs
        signal.signal(signal.SIGINT, _stop)
    hangups.end_with_terminal()


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    with suppress(OSError):
        # not by `say`: whatever this interrupts may be in the middle of a line
        os.write(sys.stderr.fileno(), b"\n[rig] stopping\n")
    raise KeyboardInterrupt


def _require(options: argparse.Namespace) -> None:
    """Refuse now what could only fail later, after minutes of fetching and building."""
    processes.require_scratch()
    if options.command in {"vm", "demo-kernel", "catalog-measure"} or (
        options.command == "cluster" and options.nodes != "0"
    ):
        processes.require_mounts("virtual machines", "virtiofsd and its mounts need root")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rig", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="obtain every part into the cache")
    commands.add_parser("kubernetes", help=f"build the control plane of the version in ${minors.VARIABLE}")
    commands.add_parser("demo", help="run the operator on a control plane with a node in a VM")
    commands.add_parser("demo-kernel", help="attach a scheduler in a VM and show what the kernel says")
    for command, what in (("build", "build a scheduler of the catalog"), ("measure", "measure one in a VM")):
        commands.add_parser(f"catalog-{command}", help=what).add_argument("--name", type=_name, required=True)
    cluster = commands.add_parser("cluster", help="keep a cluster until Ctrl-C")
    cluster.add_argument("--nodes", type=_one_of("NODES", "012"), default="0", help="real nodes in VMs")
    cluster.add_argument(
        "--timeout", type=_seconds, default=600, metavar="SECONDS", help="for the boot of each"
    )
    machine = commands.add_parser("vm", help="run a command in a VM")
    machine.add_argument("--kernel", type=_one_of("KERNEL", kernels.KINDS), default="7", help="its kind")
    machine.add_argument("--timeout", type=_seconds, default=600, metavar="SECONDS", help="for the command")
    machine.add_argument("shell_command", type=_command, metavar="COMMAND")
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


def _name(text: str) -> str:
    if text in (known := recipes.names()):
        return text
    raise argparse.ArgumentTypeError(f"NAME={text!r} has no recipe; set NAME to one of {', '.join(known)}")


def _command(text: str) -> str:
    if text.strip():
        return text
    raise argparse.ArgumentTypeError(f"CMD={text!r} is no command; set for example CMD='uname -a'")


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
    from rig import byhand
    from rig.build import inventory, measuring
    from rig.operator import demo

    match options.command:
        case "fetch":
            return inventory.fetch()
        case "kubernetes":
            return byhand.build_control_plane()
        case "cluster":
            byhand.keep_cluster(int(options.nodes), timeout_s=options.timeout)
            return 0
        case "vm":
            return byhand.run_in_vm(options.shell_command, kind=options.kernel, timeout_s=options.timeout)
        case "catalog-build" | "catalog-measure" as command:
            return (recipes.build if command == "catalog-build" else measuring.measure)(options.name)
        case command:
            return demo.show() if command == "demo" else byhand.demonstrate()


if __name__ == "__main__":
    sys.exit(main())
