"""Nobody waits in the dark, whatever comes between: steps say that they go on, and terminals are closed."""

from __future__ import annotations

import errno
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.base import errors, polling, processes
from rig.base.errors import RigError
from rig.base.progress import step

TESTS = Path(__file__).parents[1]
TIMEOUT_S = 30
OFTEN_S = 0.02
# a rig that ends only when it is told to
RIG = """
import signal, sys
from pathlib import Path
from rig.base import hangups

def end(*_):
    Path("told").touch()
    sys.exit()

signal.signal(signal.SIGTERM, end)
hangups.end_with_terminal()
Path("ready").touch()
signal.pause()
"""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The progress lines so far."""
    lines: list[str] = []
    monkeypatch.setattr("rig.base.progress.say", lines.append)
    return lambda: list(lines)


def test_a_long_step_says_that_it_goes_on_and_how_far_it_is(said: Callable[[], list[str]]) -> None:
    with step("thing: building it", detail=lambda: "7 MiB so far", every_s=OFTEN_S):
        polling.until(lambda: len(said()) > 2, "it was said twice")

    first, *reminders, last = said()
    assert (first, last) == ("thing: building it …", "thing: building it: done in 0 s")
    assert set(reminders) == {"thing: still at it after 0 s, 7 MiB so far"}


def test_of_a_step_within_a_step_only_the_inner_one_reminds(said: Callable[[], list[str]]) -> None:
    with step("outer", every_s=OFTEN_S), step("inner", every_s=OFTEN_S):
        polling.until(lambda: len(said()) > 4, "it was said twice")

    assert {line for line in said() if "still" in line} == {"inner: still at it after 0 s"}


def test_a_step_that_ends_while_it_is_measured_is_not_told_of(said: Callable[[], list[str]]) -> None:
    """What it made may be gone by then, and would count as nothing."""
    asked, ended = threading.Event(), threading.Event()

    def measure() -> str:
        asked.set()
        ended.wait(TIMEOUT_S)
        return "0 MiB"

    with step("thing", detail=measure, every_s=OFTEN_S):
        assert asked.wait(TIMEOUT_S)
    ended.set()

    assert polling.stays_untrue(lambda: "0 MiB" in " ".join(said()), for_s=0.2)


def test_a_rig_ends_when_the_terminal_is_closed_that_make_leads(tmp_path: Path) -> None:
    """Make itself hears of it, tells nobody, and waits."""
    ours, theirs = pty.openpty()
    (tmp_path / "program.py").write_text(RIG)
    (tmp_path / "Makefile").write_text(f"all: ; @{sys.executable} program.py\n")
    # under `nohup`, as whoever runs these tests may be, hang-ups are ignored
    argv = [*processes.LEASH, "env", "--default-signal=HUP", "setsid", "--ctty", "make"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(
        argv, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as make:
        os.close(theirs)
        polling.until((tmp_path / "ready").exists, "the rig runs", timeout_s=TIMEOUT_S)
        try:
            assert not (tmp_path / "told").exists()

            os.close(ours)

            polling.until((tmp_path / "told").exists, "the rig was told", timeout_s=TIMEOUT_S)
        finally:
            for pid in processes.descendants(make.pid):
                os.kill(pid, 9)


def test_a_program_that_fills_the_disk_is_answered_with_what_to_do() -> None:
    wall = "echo one of many lines; echo write /x: no space left on device >&2; exit 1"

    with pytest.raises(RigError) as raised:
        processes.run(["sh", "-c", wall])

    assert re.fullmatch(r"sh found no space left on the disk: free some, .* elsewhere", str(raised.value))


def test_a_full_disk_is_told_from_other_errors() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    forbidden = OSError(errno.EACCES, "Permission denied", "/cache/lists")

    told = str(errors.of_full_disk(full, Path("/cache")))

    assert told.startswith("the disk: /cache cannot be written: No space left on device; free some")
    assert errors.of_full_disk(forbidden, Path("/cache")) is None
