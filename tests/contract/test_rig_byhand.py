"""The rigs by hand: what is passed on from a guest, and what wrong values are told."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rig.byhand import Passage

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60


def rig(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    return subprocess.run(
        [sys.executable, "-m", "rig", *words],
        env=inherited | {"PYTHONPATH": str(ROOT / "tests")} | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_what_is_added_to_a_file_is_passed_on_once(tmp_path: Path) -> None:
    source, target = tmp_path / "said", io.BytesIO()
    passage = Passage(source, target)

    passage.pass_on()
    assert target.getvalue() == b""

    source.write_bytes(b"one\n\xff")
    passage.pass_on()
    passage.pass_on()
    assert target.getvalue() == b"one\n\xff"

    with source.open("ab") as more:
        more.write(b"two\n")
    passage.pass_on()
    assert target.getvalue() == b"one\n\xfftwo\n"


def test_a_file_that_was_emptied_is_passed_on_from_its_beginning(tmp_path: Path) -> None:
    source, target = tmp_path / "said", io.BytesIO()
    passage = Passage(source, target)
    source.write_bytes(b"a long line\n")
    passage.pass_on()

    source.write_bytes(b"short\n")
    passage.pass_on()

    assert target.getvalue() == b"a long line\nshort\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("vm", "--kernel=8", "true"), "KERNEL='8' is not known; set KERNEL=6|7|none"),
        (("vm", "--kernel=", "true"), "KERNEL='' is not known; set KERNEL=6|7|none"),
        (
            ("vm", "--timeout=soon", "true"),
            "TIMEOUT='soon' is no number of seconds; set for example TIMEOUT=600",
        ),
        (("vm", "--timeout=-1", "true"), "TIMEOUT='-1' is no number of seconds; set for example TIMEOUT=600"),
        (
            ("vm", "--timeout=inf", "true"),
            "TIMEOUT='inf' is no number of seconds; set for example TIMEOUT=600",
        ),
        (("vm", " "), "CMD=' ' is no command; set for example CMD='uname -a'"),
        (("cluster", "--timeout=no"), "TIMEOUT='no' is no number of seconds; set for example TIMEOUT=600"),
        (("cluster", "--nodes=3"), "NODES='3' is not known; set NODES=0|1|2"),
        (("cluster", "--nodes=01"), "NODES='01' is not known; set NODES=0|1|2"),
    ],
)
def test_a_wrong_value_is_told_the_variable_of_make_and_what_it_may_be(
    words: tuple[str, ...], told: str
) -> None:
    done = rig(*words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f": {told}\n")


@pytest.mark.parametrize("cache", ["/with a space", "/with'quote", '/with"quote', "relative"])
def test_the_rig_refuses_the_caches_that_make_refuses_in_the_same_words(cache: str) -> None:
    told = f"set XDG_CACHE_HOME to an absolute path without a space or quote, not to {cache}"
    refused_by_both(told, HOME="/", XDG_CACHE_HOME=cache)


@pytest.mark.parametrize("home", ["/home/some-body's", "relative"])
def test_a_home_that_will_not_do_is_named(home: str) -> None:
    told = f"set HOME or XDG_CACHE_HOME to an absolute path without a space or quote, not to {home}/.cache"
    refused_by_both(told, HOME=home)


def refused_by_both(told: str, **environment: str) -> None:
    make = subprocess.run(
        ["make", "help"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]} | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    ours = rig("vm", "true", **environment)

    assert (ours.returncode, ours.stderr) == (1, f"rig: {told}\n")
    assert make.returncode == 2
    assert f"*** {told}.  Stop." in make.stderr


def test_a_home_with_a_space_is_refused_as_well() -> None:
    done = rig("vm", "true", HOME="/home/some body")

    assert (done.returncode, done.stderr.count("not to /home/some body/.cache\n")) == (1, 1)


@pytest.mark.parametrize("command", ["demo", "cluster", "vm"])
def test_a_folder_for_temporary_files_that_cannot_be_written_is_named_at_once(command: str) -> None:
    done = rig(*([command, "true"] if command == "vm" else [command]), TMPDIR="/nonexistent")

    told = "set TMPDIR to a folder that you may write, or run this as root"
    assert (done.returncode, done.stderr) == (
        1,
        f"rig: temporary files: /nonexistent cannot be written; {told}\n",
    )
