"""The part of the benchmark that needs sched_ext, in a virtual machine."""

from __future__ import annotations

import shlex
import sys
from io import BytesIO
from pathlib import Path

import msgspec

from benchmarks.host.courses import Courses
from benchmarks.host.guest import SCHEDULERS
from rig import byhand
from rig.base.errors import RigError
from rig.guest import kernels
from rig.runtimes import images

_ROOT = Path(__file__).parents[2]
_ROUND_S = 600  # a minute on a quiet machine, with every instruction emulated


def measure(rounds: int) -> Courses:
    """Boot, and have it measured beside the kernel it is about."""
    for name in SCHEDULERS:
        images.scheduler(name)  # a guest can neither fetch nor compile
    said = BytesIO()
    with byhand.booted(kernels.obtain("7"), "bench-host") as guest:
        streams = byhand.Streams(said, sys.stderr.buffer)
        code = byhand.attend(guest, _command(rounds), streams, timeout_s=_ROUND_S * (rounds + 1))
    if code:
        raise RigError(f"the benchmark in the guest ended with {code}: see above")
    return msgspec.json.decode(said.getvalue(), type=Courses)


def _command(rounds: int) -> str:
    words = [
        *("env", f"PYTHONPATH={_ROOT / 'tests'}"),
        *(sys.executable, "-m", "benchmarks.host.guest", str(rounds)),
    ]
    return f"cd {shlex.quote(str(_ROOT))} && {shlex.join(words)}"
