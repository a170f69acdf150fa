"""The part of the benchmark that needs sched_ext, in a virtual machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import msgspec

from benchmarks.host.courses import Courses
from benchmarks.host.guest import SCHEDULERS
from rig import byhand, images, kernels
from rig.errors import RigError

_ROOT = Path(__file__).parents[2]
_ROUND_S = 300  # a minute on a quiet machine, with every instruction emulated


def measure(rounds: int) -> Courses:
    """Boot, and have it measured beside the kernel it is about."""
    for name in SCHEDULERS:
        images.scheduler(name)  # a guest can neither fetch nor compile
    with byhand.booted(kernels.obtain("7"), "bench-host") as guest:
        words = [
            "env",
            f"PYTHONPATH={_ROOT / 'tests'}",
            sys.executable,
            "-m",
            "benchmarks.host.guest",
            str(rounds),
        ]
        name = guest.begin(f"cd {shlex.quote(str(_ROOT))} && {shlex.join(words)}", apart=True)
        done = guest.await_end(name, timeout_s=_ROUND_S * (rounds + 1))
        if done.exit_code:
            raise RigError(
                f"the benchmark in the guest failed:\n{guest.errors_file(name).read_text()[-3000:]}"
            )
    return msgspec.json.decode(done.output, type=Courses)
