"""A virtual machine returns what ran in it, and a kernel that dies or hangs is reported as just that."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rig import byhand
from rig.base import processes
from rig.base.errors import RigError
from rig.guest import kernels, vm

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PROJECT = Path(__file__).parents[2]

pytestmark = pytest.mark.own_guest


@pytest.fixture(scope="module")
def guest() -> Iterator[vm.Guest]:
    with vm.Guest(kernels.obtain("7")) as guest:
        yield guest


def kept_console(error: vm.GuestError) -> str:
    match = re.search(r"console log: (\S+)", str(error))
    assert match is not None
    return Path(match[1]).read_text()


def test_a_commands_exit_code_and_output_come_back(guest: vm.Guest) -> None:
    outcome = guest.run("echo to stdout; echo to stderr >&2; exit 7")

    assert outcome == vm.Outcome(7, "to stdout\nto stderr\n")


def test_output_of_a_megabyte_arrives_whole(guest: vm.Guest) -> None:
    outcome = guest.run("head -c 1000000 /dev/zero | tr '\\0' x")

    assert outcome == vm.Outcome(0, "x" * 1_000_000)


def test_commands_run_side_by_side(guest: vm.Guest) -> None:
    """Each waits for the other, so that one after the other would hang."""
    first = guest.begin("mkfifo /run/a /run/b; echo x > /run/a; cat /run/b")
    second = guest.begin("until [ -p /run/b ]; do sleep 0.1; done; cat /run/a; echo y > /run/b")

    assert guest.await_end(first, timeout_s=60).output == "y\n"
    assert guest.await_end(second, timeout_s=60).output == "x\n"


def test_a_command_that_never_ends_is_told_from_a_guest_that_hangs(guest: vm.Guest) -> None:
    guest.run("echo something to find > /dev/console")

    with pytest.raises(vm.GuestError, match="answers, but a command in it did not end within 2 s") as caught:
        guest.run("echo half way; sleep 1000", timeout_s=2)

    assert str(caught.value).endswith("said so far:\nhalf way\n")
    assert "something to find" in kept_console(caught.value)


def test_a_guest_that_hangs_is_called_that(guest: vm.Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm, "PING_TIMEOUT_S", 2)
    guest.freeze()
    try:
        with pytest.raises(vm.GuestError, match="hangs: it does not answer at all"):
            guest.run("true", timeout_s=1)
    finally:
        guest.thaw()

    assert guest.run("echo alive").output == "alive\n"


class Answering(io.BytesIO):
    """A stream that touches a file when it hears a word."""

    def __init__(self, word: bytes, file: Path) -> None:
        super().__init__()
        self._word, self._file = word, file

    def write(self, data: ReadableBuffer) -> int:
        if self._word in bytes(data):
            self._file.touch()
        return super().write(data)


def test_by_hand_one_hears_a_command_while_it_speaks(guest: vm.Guest) -> None:
    """It does not go on before it was heard, so that to be told at its end would be never."""
    heard = Answering(b"first", guest.share / "heard")
    streams = byhand.Streams(heard, errors := io.BytesIO())
    command = (
        "echo first; until [ -e /mnt/share/heard ]; do sleep 0.1; done; echo second; echo aside >&2; exit 3"
    )

    assert byhand.attend(guest, command, streams, timeout_s=60) == 3

    assert (heard.getvalue(), errors.getvalue()) == (b"first\nsecond\n", b"aside\n")


def test_by_hand_a_command_that_takes_too_long_says_how_to_wait_longer(guest: vm.Guest) -> None:
    streams = byhand.Streams(output := io.BytesIO(), io.BytesIO())

    with pytest.raises(RigError, match="did not end within 2 s") as caught:
        byhand.attend(guest, "echo half way; sleep 1000", streams, timeout_s=2)

    assert str(caught.value).endswith("to wait longer, set TIMEOUT to more seconds")
    assert output.getvalue() == b"half way\n"


def test_a_panic_is_called_a_panic_also_when_the_dead_are_asked_again() -> None:
    """By hand nothing is lost that was said before."""
    streams = byhand.Streams(output := io.BytesIO(), errors := io.BytesIO())
    last_words = "echo last; echo words >&2; echo c > /proc/sysrq-trigger"
    with vm.Guest(kernels.obtain("7")) as guest:
        with pytest.raises(vm.GuestError, match="the kernel panicked") as caught:
            byhand.attend(guest, last_words, streams, timeout_s=120)
        assert (output.getvalue(), errors.getvalue()) == (b"last\n", b"words\n")
        with pytest.raises(vm.GuestError, match="the kernel panicked"):
            guest.run("true")

    assert "sysrq triggered crash" in kept_console(caught.value)


@pytest.mark.usefixtures("guest")  # where there is none, the run below would not fail but skip
def test_a_panic_fails_that_test_and_the_rest_of_its_module_while_the_next_module_gets_a_new_kernel() -> None:
    """The sabotage of the kernel tier: what passed before the panic stands."""
    panicking = "tests/kernel/panicking_example.py"
    following = "tests/kernel/test_guest.py::test_the_config_lies_where_libbpf_looks_for_it[7]"
    environment = os.environ | {"PYTHONPATH": str(_PROJECT / "tests"), "CI": ""}

    run = processes.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", panicking, following],
        cwd=_PROJECT,
        env=environment,
        timeout_s=300,
        check=False,
    )

    assert run.returncode == 1
    assert re.search(r"^=+ 2 passed, 2 errors", run.stdout, re.MULTILINE)
    assert "the kernel panicked" in run.stdout
    assert "Traceback" not in run.stderr
