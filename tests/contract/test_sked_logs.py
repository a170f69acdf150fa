"""Logs are for whoever reads them: a person at a terminal, or a machine."""

from __future__ import annotations

import datetime as dt
import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def said_in_a_terminal(home: Path, *flags: str) -> str:
    """What a manager that finds no API server says there before it ends."""
    ours, theirs = pty.openpty()
    program = Path(sys.executable).with_name("sked")
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm"}
    argv = [str(program), "manager", *flags]
    subprocess.run(argv, stderr=theirs, timeout=60, check=False, env=environment)
    os.close(theirs)
    said = b""
    with suppress(OSError), os.fdopen(ours, "rb", buffering=0) as screen:  # an error: nobody writes any more
        while chunk := screen.read(4096):
            said += chunk
    return said.decode()


def test_in_a_terminal_a_log_is_lines_of_coloured_text(tmp_path: Path) -> None:
    said = said_in_a_terminal(tmp_path)

    assert _COLOURS.search(said)
    plain = _COLOURS.sub("", said)
    assert re.match(r"\d\d:\d\d:\d\d \[error +\] manager_failed +reason='no API server is known: ", plain)


def test_who_wants_json_gets_it_in_a_terminal_too(tmp_path: Path) -> None:
    line = json.loads(said_in_a_terminal(tmp_path, "--log-format=json"))

    assert line["event"] == "manager_failed"


def test_a_manager_without_an_api_server_to_be_found_says_so_in_json_and_exits_1(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("sked")
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    done = subprocess.run(
        [program, "manager"], capture_output=True, text=True, timeout=60, check=False, env=environment
    )

    assert (done.returncode, done.stdout) == (1, "")
    line = json.loads(done.stderr)
    assert (line["level"], line["event"]) == ("error", "manager_failed")
    assert "name a kubeconfig" in line["reason"]
    assert abs(dt.datetime.fromisoformat(line["timestamp"]).timestamp() - time.time()) < 60
