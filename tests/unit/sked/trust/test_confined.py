"""A program that hangs, crashes, raves or eats memory ends, alone, and it is known what became of it."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from rig.base import polling
from schedkit.sked.trust import confined
from schedkit.sked.trust.confined import BrokenOffError, Limits

LIMITS = Limits(time_s=20, memory=64 << 20, output=1000)


def run(program: str, request: bytes = b"", limits: Limits = LIMITS) -> bytes:
    argv = (sys.executable, "-S", "-c", program)
    return asyncio.run(confined.run(argv, request, limits, {"MALLOC_ARENA_MAX": "1"}))


def refusal(program: str, request: bytes = b"", limits: Limits = LIMITS) -> str:
    with pytest.raises(BrokenOffError) as broken:
        run(program, request, limits)
    return str(broken.value)


def test_what_a_program_makes_of_its_request_is_its_answer() -> None:
    program = "import sys; sys.stdout.write(sys.stdin.read().upper())"

    assert run(program, b"how are you") == b"HOW ARE YOU"


def test_a_large_request_that_nobody_reads_does_no_harm() -> None:
    assert run("print('done', end='')", b"x" * (4 << 20)) == b"done"


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = f"p = subprocess.Popen(['sleep', '600']); open({str(note)!r}, 'w').write(str(p.pid))"
    started = time.monotonic()

    words = refusal(f"import subprocess, time; {child}; time.sleep(600)", limits=Limits(1.5, 64 << 20, 1000))

    assert words == "it did not end within 1.5 s"
    assert time.monotonic() - started < 15
    gone = Path("/proc", note.read_text(), "cmdline")
    polling.until(lambda: not gone.exists() or not gone.read_bytes(), "what it started is gone")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("raise SystemExit(7)", "it ended with code 7"),
        ("import os; os.kill(os.getpid(), 11)", "it was ended by signal 11"),
        (
            "raise ValueError('no such\\x1bthing')",
            "it ended with code 1: ValueError: no such\N{REPLACEMENT CHARACTER}thing",
        ),
        ("import sys; sys.exit('why ' * 1000)", f"it ended with code 1: {'why ' * 50}"),
        (
            "import sys; sys.stderr.write('x\\n' * 1_000_000 + 'last\\n\\n'); sys.exit(3)",
            "it ended with code 3: last",
        ),
        (
            "import os; os.write(2, b'\\xff'); os.kill(os.getpid(), 9)",
            "it was ended by signal 9: \N{REPLACEMENT CHARACTER}",
        ),
        ("print('x' * 2000)", "it wrote more than 1000 bytes"),
        ("while True: print('x' * 2000)", "it wrote more than 1000 bytes"),
    ],
)
def test_a_program_that_does_not_end_well_is_told_from_one_that_does(program: str, words: str) -> None:
    assert refusal(program) == words


def test_memory_beyond_the_limit_is_not_given() -> None:
    eater = (
        "import sys; sys.stdin.read(); meal = [bytearray(1 << 20) for _ in range({})]; print('fed', end='')"
    )

    assert run(eater.format(8)) == b"fed"
    assert refusal(eater.format(200)) == "it ended with code 1: MemoryError"


def test_complaints_of_a_program_that_ends_well_are_nobodys_business() -> None:
    assert run("import sys; sys.stderr.write('x' * 1_000_000); print('done', end='')") == b"done"


def test_a_program_that_is_not_there_is_one_that_broke_off() -> None:
    with pytest.raises(BrokenOffError, match="it could not be started"):
        asyncio.run(confined.run(("/nowhere/at/all",), b"", LIMITS, {}))
