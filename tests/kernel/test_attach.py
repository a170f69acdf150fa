"""Older kernels with sched_ext run the rig's schedulers, too; the other modules say more, on newer ones."""

from __future__ import annotations

import os
import signal

import pytest

from rig.guest import kernels, schedext, schedulers
from rig.guest.schedext import Launcher

pytestmark = pytest.mark.kernel("6")


def prepare_on_host() -> None:
    schedulers.built()


def test_the_running_kernel_is_the_one_that_was_chosen(kernel_kind: str) -> None:
    assert os.uname().release == kernels.obtain(kernel_kind).release


def test_the_fifo_takes_over_and_lets_go(launcher: Launcher) -> None:
    fifo = launcher.attach("fifo")
    assert schedext.ops() == "rig_fifo"

    fifo.send(signal.SIGTERM)

    assert fifo.wait(timeout_s=30) == 0
    assert schedext.state() == "disabled"
