"""`make catalog-measure`: what a scheduler of the catalog needs and does, measured in a virtual machine."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from rig import byhand, kernels, recipes, vm
from rig.errors import RigError
from rig.progress import say, step

# the first 7.x kernels of Debian that run real schedulers are not in a release yet
_KIND = "6"
_MEMORY_MB = 4096
_TIMEOUT_S = 3600


def measure(name: str) -> int:
    """Build the scheduler if need be, measure it, and write `measured.json` beside its recipe."""
    binary, kernel = recipes.program(name), kernels.obtain(_KIND)
    settings = vm.Settings(name=f"measure-{name}", memory_mb=_MEMORY_MB, boot_timeout_s=600)
    with ExitStack() as stack:
        with step(f"kernel {kernel.release}: booting in a virtual machine"):
            guest = stack.enter_context(vm.Guest(kernel, settings))
        layout = guest.share / "image"
        recipes.package(name, binary, layout)
        with (guest.share / "findings.json").open("wb") as findings:
            streams = byhand.Streams(findings, sys.stderr.buffer)
            words = shlex.join(_command(name, kernel, settings))
            code = byhand.attend(guest, f"cd {recipes.ROOT} && {words}", streams, timeout_s=_TIMEOUT_S)
        if code != 0:
            raise RigError(f"{name} was not measured; why is above")
        file = recipes.FOLDER / name / "measured.json"
        file.write_bytes((guest.share / "findings.json").read_bytes())
    say(f"{file.relative_to(recipes.ROOT)} is written: `make catalog` takes it into the catalog")
    return 0


def _command(name: str, kernel: kernels.Kernel, settings: vm.Settings) -> Sequence[str]:
    machine = f"QEMU without KVM, {settings.cpus} CPUs, {settings.memory_mb} MiB"
    return [
        *("env", "PYTHONPATH=tests", "PYTHONDONTWRITEBYTECODE=1"),
        *(sys.executable, "-m", "rig.trials", "/mnt/share/image"),
        f"--version={recipes.version(name)}",
        f"--machine={machine}",
        f"--kernel={kernel.release}",
        f"--date={time.strftime('%Y-%m-%d')}",
    ]
