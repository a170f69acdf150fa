"""The front doors of `schedctl` and `sked`, run as a user runs them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = ("schedctl", "sked")
WRONG_USAGE = 64
FIRST_LINE = {"schedctl": "None yet.", "sked": "manager  Run the operator."}

each_command = pytest.mark.parametrize("command", COMMANDS)


def run(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name(command)
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


@each_command
def test_version_is_the_one_of_the_distribution(command: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    done = run(command, "--version")

    assert (done.returncode, done.stdout) == (0, f"{command} {declared}\n")


@each_command
def test_help_says_what_exists_on_stdout(command: str) -> None:
    done = run(command, "--help")

    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: {command} ")
    assert f"Commands:\n  {FIRST_LINE[command]}" in done.stdout
    assert done.stderr == ""


@each_command
def test_alone_it_prints_its_help(command: str) -> None:
    assert run(command).stdout == run(command, "--help").stdout


@each_command
def test_an_unknown_flag_exits_64_and_names_the_nearest(command: str) -> None:
    done = run(command, "--verison")

    assert (done.returncode, done.stdout) == (WRONG_USAGE, "")
    assert "--verison" in done.stderr
    assert "Did you mean '--version'?" in done.stderr


@each_command
def test_an_unknown_command_exits_64_and_says_where_to_look(command: str) -> None:
    done = run(command, "frobnicate")

    assert (done.returncode, done.stdout) == (WRONG_USAGE, "")
    assert "No such command 'frobnicate'" in done.stderr
    assert f"Try '{command} --help' for help." in done.stderr


@each_command
def test_start_up_imports_little(command: str) -> None:
    """Beyond click, nothing that costs time before a verb is known."""
    load = f"import schedkit.{command}.main"
    probe = f"import sys; before = set(sys.modules); {load}; print(*set(sys.modules) - before)"

    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    outside = {name.partition(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)
    assert {name for name in outside if not name.startswith("_")} == {"click", "schedkit"}
    assert not {"asyncio", "http", "ssl", "importlib.metadata"} & set(done.stdout.split())
