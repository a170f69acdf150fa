"""A virtual machine returns what ran in it, and a kernel that dies or hangs is reported as just that."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig import kernels, processes, vm

_PROJECT = Path(__file__).parents[2]


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


def test_a_panic_is_called_a_panic_also_when_the_dead_are_asked_again() -> None:
    with vm.Guest(kernels.obtain("7")) as guest:
        with pytest.raises(vm.GuestError, match="the kernel panicked") as caught:
            guest.run("echo c > /proc/sysrq-trigger")
        with pytest.raises(vm.GuestError, match="the kernel panicked"):
            guest.run("true")

    assert "sysrq triggered crash" in kept_console(caught.value)


@pytest.mark.usefixtures("guest")  # where there is none, the run below would not fail but skip
def test_a_panic_fails_that_test_and_the_rest_of_its_module_while_the_next_module_gets_a_new_kernel() -> None:
    """The sabotage of the kernel tier: results from before the panic stand, the module's others cannot pass."""
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
