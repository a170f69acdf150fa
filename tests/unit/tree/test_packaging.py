"""The unit for systemd, its example of a choice and the page about both speak of the same things."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from schedkit.schedctl.main import main
from schedkit.schedctl.problems.problem import ExitCode
from schedkit.schedctl.verbs.machine.run import command as run

ROOT = Path(__file__).parents[3]
UNIT = (ROOT / "packaging/systemd/schedkit.service").read_text()
EXAMPLE = (ROOT / "packaging/systemd/boot.env").read_text()
PAGE = (ROOT / "docs/schedctl/boot.md").read_text()
OWN = {"SCHEDULER", "OPTIONS", "ARGUMENTS"}


def test_the_unit_takes_its_choice_from_the_names_of_the_example_and_of_the_page() -> None:
    [line] = re.findall("^ExecStartPre=(.*)$", UNIT, re.MULTILINE)

    assert set(re.findall(r"\$\{?([A-Z]+)", line)) == OWN
    assert set(re.findall("^#?([A-Z]+)=", EXAMPLE, re.MULTILINE)) == OWN
    assert set(re.findall("^\\| `([A-Z]+)` \\|", PAGE, re.MULTILINE)) == OWN


def test_every_variable_and_option_of_the_example_is_one_that_schedctl_reads() -> None:
    options = [*main.params, *run.params]
    variables = {str(option.envvar) for option in options}
    flags = {flag for option in run.params for flag in option.opts}

    assert set(re.findall("^#?(SCHEDCTL_[A-Z_]+)=", EXAMPLE, re.MULTILINE)) <= variables
    assert set(re.findall("^#?OPTIONS=(.*)$", EXAMPLE, re.MULTILINE)) <= flags


@pytest.mark.parametrize(
    ("code", "status", "called"),
    [
        pytest.param("killed", "KILL", "stop\n", id="it was killed"),
        pytest.param("dumped", "SEGV", "stop\n", id="its interpreter crashed"),
        pytest.param("exited", "75", "stop\n", id="it failed, and has not seen the end"),
        pytest.param("exited", "0", "", id="somebody stopped the scheduler"),
        pytest.param("exited", "1", "", id="the scheduler was ejected, or failed"),
        pytest.param("", "", "", id="it was never started: nothing there is its"),
    ],
)
def test_a_supervisor_that_could_not_stop_its_scheduler_is_helped(
    tmp_path: Path, code: str, status: str, called: str
) -> None:
    [line] = re.findall("^ExecStopPost=(.*)$", UNIT, re.MULTILINE)
    (tmp_path / "schedctl").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "schedctl").chmod(0o755)

    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "EXIT_CODE": code, "EXIT_STATUS": status}
    done = subprocess.run(shlex.split(line), env=env, capture_output=True, text=True, check=True)

    assert done.stdout == called
    assert f"exited/{ExitCode.LEFT_BEHIND})" in line
