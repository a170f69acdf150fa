"""The front doors of `schedctl` and `sked`, run as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = ("schedctl", "sked")
WRONG_USAGE = 64
LOST_OUTPUT = 74
FIRST_LINE = {
    "schedctl": "run         Run a scheduler, and wait until the kernel confirms it.",
    "sked": "manager  Run the operator.",
}

each_command = pytest.mark.parametrize("command", COMMANDS)


def program(command: str) -> Path:
    return Path(sys.executable).with_name(command)


def run(command: str, *arguments: str | bytes, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [program(command), *arguments]
    return subprocess.run(
        words, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def help_of() -> dict[str, subprocess.CompletedProcess[str]]:
    """What each command answers to `--help`."""
    return {command: run(command, "--help") for command in COMMANDS}


@each_command
def test_version_is_the_one_of_the_distribution(command: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    done = run(command, "--version")

    assert (done.returncode, done.stdout) == (0, f"{command} {declared}\n")


@each_command
def test_help_says_what_exists_on_stdout(
    help_of: dict[str, subprocess.CompletedProcess[str]], command: str
) -> None:
    done = help_of[command]

    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: {command} ")
    assert f"Commands:\n  {FIRST_LINE[command]}" in done.stdout
    assert done.stderr == ""


@each_command
@pytest.mark.parametrize("words", [[], ["-h"]], ids=["alone", "-h"])
def test_help_has_short_ways(
    help_of: dict[str, subprocess.CompletedProcess[str]], words: list[str], command: str
) -> None:
    done = run(command, *words)

    assert (done.returncode, done.stdout) == (0, help_of[command].stdout)


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
@pytest.mark.parametrize("word", ["help", "version"])
def test_a_flag_typed_as_a_command_is_told_how_to_write_it(word: str, command: str) -> None:
    done = run(command, word)

    assert (done.returncode, done.stdout) == (WRONG_USAGE, "")
    assert done.stderr.endswith(f" Did you mean '--{word}'?\n")


@each_command
def test_a_value_for_a_flag_that_takes_none_gets_the_usage(command: str) -> None:
    done = run(command, "--version=3")

    assert (done.returncode, done.stdout) == (WRONG_USAGE, "")
    assert done.stderr.splitlines() == [
        f"Usage: {command} [OPTIONS] COMMAND [ARGS]...",
        f"Try '{command} --help' for help.",
        "",
        "Error: Option '--version' does not take a value.",
    ]


@each_command
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize(("word", "shown"), [(b"\xff", r"'\xff'"), (b"--\xff", r"'--\xff'")])
def test_bytes_that_are_no_text_are_shown_as_they_are_written(
    word: bytes, shown: str, locale: str, command: str
) -> None:
    done = run(command, word, LC_ALL=locale)

    assert (done.returncode, done.stdout) == (WRONG_USAGE, "")
    assert shown in done.stderr.splitlines()[-1]


@each_command
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_output_that_does_not_fit_is_an_error_of_one_line(flag: str, unbuffered: str, command: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [program(command), flag],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == LOST_OUTPUT
    assert done.stderr == "Error: cannot write the output: No space left on device\n"
