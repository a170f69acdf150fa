"""`schedctl status --watch` beside a kernel whose scheduler comes and goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rig.guest import schedulers
from rig.guest.schedext import Launcher

pytestmark = pytest.mark.kernel("7")

TIMEOUT_S = 120


def prepare_on_host() -> None:
    schedulers.built()


@contextmanager
def watching(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, on a machine without a container runtime."""
    program, nowhere = str(Path(sys.executable).with_name("schedctl")), str(folder / "none.sock")
    sockets = ["--podman-socket", nowhere, "--containerd-socket", nowhere]
    argv = [program, *sockets, "status", "--watch", "-o", "json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as watch:
        try:
            yield watch
        finally:
            watch.kill()


def told(watch: subprocess.Popen[str], state: str) -> dict[str, Any]:
    """The next line about a kernel in that state; of an attachment there may be two, before it is counted."""
    assert watch.stdout is not None
    lines = map(json.loads, watch.stdout)
    return next(line for line in lines if line["kernel"]["state"] == state)


def test_each_change_is_told_and_ctrl_c_ends_it_well(launcher: Launcher, tmp_path: Path) -> None:
    with watching(tmp_path) as watch:
        before = told(watch, "disabled")
        stranger = launcher.attach("fifo")
        attached = told(watch, "enabled")
        stranger.send(signal.SIGTERM)
        after = told(watch, "disabled")
        watch.send_signal(signal.SIGINT)

        assert watch.wait(TIMEOUT_S) == 0
    assert (attached["kernel"]["ops"], attached["owner"]["pid"]) == ("rig_fifo", stranger.pid)
    assert attached["status"] == "orphaned-kernel-state"
    assert after["kernel"]["enable_seq"] == before["kernel"]["enable_seq"] + 1
