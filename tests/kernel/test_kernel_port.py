"""A real kernel keeps the promises of the port, as the one of unit tests does."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rig.base import polling
from rig.base.processes import Process
from rig.guest import schedext, schedulers
from rig.guest.kernel_contract import TIMEOUT_S, KernelContract
from rig.guest.schedext import Launcher
from schedkit.schedctl.change.this_kernel import ThisKernel

pytestmark = pytest.mark.kernel("7")


def prepare_on_host() -> None:
    schedulers.built()


class MachineOfGuest:
    """The rig's programs as processes beside the kernel that is tested."""

    def __init__(self, launcher: Launcher) -> None:
        self.kernel = ThisKernel(Path("/"))
        self._launcher = launcher
        self._started: dict[int, Process] = {}
        self._names: dict[int, str] = {}

    def begin(self, scheduler: str) -> int:
        process = self._launcher.start(scheduler)
        self._started[process.pid], self._names[process.pid] = process, scheduler
        return process.pid

    def command(self, pid: int) -> str:
        """As soon as it is its own: what leashes it to this process comes before."""
        file, program = Path(f"/proc/{pid}/cmdline"), str(schedulers.binary(self._names[pid]))
        polling.until(lambda: file.read_text() == f"{program}\0", f"{program} runs")
        return program

    def has_ended(self, pid: int) -> bool:
        return self._started[pid].exit_code() is not None

    def kill(self, pid: int) -> None:
        self._started[pid].send(signal.SIGKILL)
        assert self._started[pid].wait(TIMEOUT_S) is not None

    def stall(self, pid: int) -> None:
        self._started[pid].send(signal.SIGUSR1)

    def press_sysrq(self) -> None:
        schedext.eject()


@pytest.fixture
def machine(no_old_registrations: None, launcher: Launcher) -> MachineOfGuest:
    """Nothing of an earlier scheduler is left in it."""
    return MachineOfGuest(launcher)


class TestThisKernel(KernelContract):
    """All of the contract."""
