"""The kernel in memory keeps the promises of the port, as a real one does in the kernel tier."""

from __future__ import annotations

import itertools

import pytest

from rig.guest.fakekernel import FakeKernel
from rig.guest.kernel_contract import KernelContract, ops_of
from schedkit.model.host.processes import Hold
from schedkit.model.kernel.log import ExitKind

_ATTACHING_S, _STALLING_S = 0.4, 2.0


class MachineInMemory:
    """The rig's programs as events of the fake."""

    def __init__(self) -> None:
        self.kernel = FakeKernel()
        self._pids = itertools.count(100)

    def begin(self, scheduler: str) -> int:
        pid, hold = next(self._pids), Hold.MAP if scheduler == "orphan" else Hold.LINK
        self.kernel.spawn(pid, scheduler)
        self.kernel.after(_ATTACHING_S, lambda: self.kernel.attach(pid, ops_of(scheduler), hold))
        return pid

    def command(self, pid: int) -> str:
        return self.kernel.processes[pid].command

    def has_ended(self, pid: int) -> bool:
        return pid not in self.kernel.processes

    def kill(self, pid: int) -> None:
        self.kernel.end(pid)

    def stall(self, pid: int) -> None:  # noqa: ARG002 - only one is attached
        self.kernel.after(_STALLING_S, lambda: self.kernel.throw_out(ExitKind.ERROR_STALL))

    def press_sysrq(self) -> None:
        self.kernel.throw_out(ExitKind.SYSRQ)


@pytest.fixture
def machine() -> MachineInMemory:
    return MachineInMemory()


class TestFakeKernel(KernelContract):
    """All of the contract."""


def test_another_process_with_the_same_number_is_not_the_same_life(machine: MachineInMemory) -> None:
    """As `tests/unit/kernel/test_processes.py` shows it of `/proc`."""
    pid = machine.begin("fifo")
    life = machine.kernel.life(pid)

    machine.kernel.spawn(pid, "fifo")

    assert (life.is_going_on, machine.kernel.life(pid).is_going_on) == (False, True)
