"""`python -m rig.build.confined FLAGS ROOT PROGRAM…`: becomes the program, with what it is left.

For attempts in a guest, in a mount namespace of its own: what is mounted here ends with the program.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import time
from pathlib import Path

from schedkit.model.kernel.capabilities import CAPABILITIES

_DROP_FROM_BOUNDING_SET = 24  # of prctl(2)
_LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")


def main() -> None:
    options = _parser().parse_args()
    dropped = _dropped(options.capabilities)
    started = options.started.open("w")  # while it can be seen
    _mount(options.root, boot=not options.no_boot, run="ro" if options.read_only_run else "rw")
    os.chroot(options.root)
    os.chdir("/")
    for capability in dropped:
        _drop(capability)
    started.write(str(time.monotonic()))
    started.close()
    environment = dict(pair.split("=", 1) for pair in options.env)
    os.execve(options.program[0], options.program, environment)  # noqa: S606 - no shell is meant


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--capabilities", help="those it keeps, with commas; all if this is left out")
    parser.add_argument("--no-boot", action="store_true", help="leave /boot empty")
    parser.add_argument("--read-only-run", action="store_true", help="make /run a folder nobody can write to")
    parser.add_argument("--started", type=Path, required=True, help="where to note when the program begins")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("program", nargs="+")
    return parser


def _mount(root: Path, *, boot: bool, run: str) -> None:
    mounts = [("-t", "proc", "proc", "proc"), ("--rbind", "/sys", "sys"), ("--rbind", "/dev", "dev")]
    mounts += [("-t", "tmpfs", "-o", run, "run", "run")]
    mounts += [("--bind", "/boot", "boot")] if boot else []
    for *words, target in mounts:
        subprocess.run(["mount", *words, str(root / target)], check=True)


def _dropped(kept: str | None) -> list[int]:
    """The numbers of all capabilities but those; none without such a list."""
    if kept is None:
        return []
    numbers = {CAPABILITIES.index(f"CAP_{name}") for name in kept.split(",") if name}
    return [each for each in range(int(_LAST_CAPABILITY.read_text()) + 1) if each not in numbers]


def _drop(capability: int) -> None:
    """Out of the bounding set: root loses it with the next program that it becomes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"capability {capability} cannot be dropped")


if __name__ == "__main__":
    main()
