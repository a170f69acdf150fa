"""`make catalog-measure`: what a scheduler of the catalog needs and does, measured in a virtual machine."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path

from rig import byhand
from rig.base import cache
from rig.base.errors import RigError
from rig.base.progress import say, step
from rig.build import recipes
from rig.guest import kernels, vm

# the first 7.x kernels of Debian that run real schedulers are not in a release yet
_KIND = "6"
_MEMORY_MB = 4096
_TIMEOUT_S = 3600


def measure(name: str) -> int:
    """Build the scheduler if need be, measure it, and write `measured.json` beside its recipe."""
    binary, kernel = recipes.program(name), kernels.obtain(_KIND)
    settings = vm.Settings(name=f"measure-{name}", memory_mb=_MEMORY_MB, boot_timeout_s=600)
    kept = cache.root() / "measurements" / f"{binary.parents[1].name}-{kernel.release}.jsonl"
    with ExitStack() as stack:
        with step(f"kernel {kernel.release}: booting in a virtual machine"):
            guest = stack.enter_context(vm.Guest(kernel, settings))
        recipes.package(name, binary, guest.share / "image")
        stack.enter_context(_kept(guest.share / "attempts.jsonl", kept))
        findings = _try(guest, _command(name, kernel, settings))
    file = recipes.FOLDER / name / "measured.json"
    file.write_bytes(findings)
    kept.unlink(missing_ok=True)
    say(f"{file.relative_to(recipes.ROOT)} is written: `make catalog` takes it into the catalog")
    return 0


@contextmanager
def _kept(attempts: Path, kept: Path) -> Iterator[None]:
    """What was tried before a measurement was cut short is there again; what is tried now will be."""
    kept.parent.mkdir(exist_ok=True)
    if kept.exists():
        shutil.copy(kept, attempts)
    try:
        yield
    finally:
        if attempts.exists():
            shutil.copy(attempts, kept)


def _try(guest: vm.Guest, command: Sequence[str]) -> bytes:
    """Run the attempts, and pass on what they say; their findings."""
    findings = BytesIO()
    streams = byhand.Streams(findings, sys.stderr.buffer)
    words = f"cd {recipes.ROOT} && {shlex.join(command)}"
    if byhand.attend(guest, words, streams, timeout_s=_TIMEOUT_S) != 0:
        raise RigError("nothing was measured; why is above")
    return findings.getvalue()


def _command(name: str, kernel: kernels.Kernel, settings: vm.Settings) -> Sequence[str]:
    machine = f"QEMU without KVM, {settings.cpus} CPUs, {settings.memory_mb} MiB"
    return [
        *("env", "PYTHONPATH=tests", "PYTHONDONTWRITEBYTECODE=1"),
        *(sys.executable, "-m", "rig.build.trials", "/mnt/share/image"),
        "--attempts=/mnt/share/attempts.jsonl",
        f"--version={recipes.version(name)}",
        f"--machine={machine}",
        f"--kernel={kernel.release}",
        f"--date={time.strftime('%Y-%m-%d')}",
    ]
