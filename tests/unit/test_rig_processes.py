"""Nothing a test starts outlives it, and what a killed run left behind is swept by the next."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig import polling, processes
from rig.errors import RigError, Unavailable
from rig.processes import Process

TESTS = Path(__file__).parents[1]
# starts what its arguments say and waits to be killed
PARENT = """
import signal, sys
from pathlib import Path
from rig.processes import Process
folder, tree, *words = sys.argv[1:]
Process(words, log=Path(folder) / "child.log", tree=tree == "tree")
signal.pause()
"""
OWNER = """
import signal
from rig import processes
print(processes.run_folder("owned"), flush=True)
signal.pause()
"""
# detaches from its parent as a daemon does, so that only the end of its namespace ends it
DETACHING = "setsid sleep {0} & setsid sleep {0} & wait"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    return tmp_path / "schedkit"


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other process on this machine sleeps."""
    return f"600.{os.getpid()}{time.monotonic_ns()}"


@pytest.fixture
def root() -> None:
    if not processes.is_root():
        raise Unavailable("process trees", "namespaces of their own need root", "run `make test` as root")


def sleepers(mark: str) -> list[int]:
    """The processes that are called `sleep` with this mark as their argument."""
    wanted = b"sleep\0" + mark.encode() + b"\0"
    return [
        int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if _content(file) == wanted
    ]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""  # it ended while we looked


def await_sleepers(mark: str, count: int) -> None:
    polling.until(lambda: len(sleepers(mark)) == count, f"{count} processes sleep {mark}", timeout_s=20)


@contextmanager
def parent_of(words: list[str], folder: Path, *, tree: bool) -> Iterator[Process]:
    """Another process that starts the words through the rig."""
    script = [sys.executable, "-c", PARENT, str(folder), "tree" if tree else "single", *words]
    with processes.running(Process(script, log=folder / "parent.log")) as parent:
        yield parent


def test_a_child_dies_with_its_parent_even_when_that_is_killed(tmp_path: Path, mark: str) -> None:
    with parent_of(["sleep", mark], tmp_path, tree=False) as parent:
        await_sleepers(mark, 1)

        parent.send(signal.SIGKILL)

        await_sleepers(mark, 0)


def test_a_tree_dies_with_the_parent_of_its_first_process(tmp_path: Path, mark: str, root: None) -> None:
    with parent_of(["sh", "-c", DETACHING.format(mark)], tmp_path, tree=True) as parent:
        await_sleepers(mark, 2)

        parent.send(signal.SIGKILL)

        await_sleepers(mark, 0)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 3), (signal.SIGKILL, -signal.SIGKILL)], ids=["SIGTERM", "SIGKILL"]
)
def test_a_tree_dies_with_its_first_process(
    number: signal.Signals, code: int, tmp_path: Path, mark: str, root: None
) -> None:
    script = f"trap 'exit 3' TERM; {DETACHING.format(mark)}"
    tree = Process(["sh", "-c", script], log=tmp_path / "log", tree=True)
    with processes.running(tree):
        await_sleepers(mark, 2)

        tree.send(number)

        await_sleepers(mark, 0)
        assert tree.wait(timeout_s=10) == code


def test_without_a_tree_a_daemon_would_stay(tmp_path: Path, mark: str) -> None:
    """The sabotage of the tests above: it is the tree that ends daemons."""
    single = Process(["sh", "-c", DETACHING.format(mark)], log=tmp_path / "log")
    try:
        await_sleepers(mark, 2)

        single.send(signal.SIGKILL)
        single.wait(timeout_s=10)

        assert len(sleepers(mark)) == 2
    finally:
        for pid in sleepers(mark):
            os.kill(pid, signal.SIGKILL)


def test_what_ignores_sigterm_is_killed_after_a_grace(tmp_path: Path) -> None:
    stubborn = Process(
        ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"], log=tmp_path / "log"
    )
    with processes.running(stubborn):
        stubborn.await_ready(lambda: "deaf" in stubborn.tail(), timeout_s=10)

        stubborn.stop(grace_s=0.3)

        assert stubborn.exit_code() == -signal.SIGKILL


def test_a_program_that_ends_before_it_is_ready_shows_the_end_of_its_log(tmp_path: Path) -> None:
    broken = Process(["sh", "-c", "echo the port is taken; exit 5"], log=tmp_path / "log")

    with pytest.raises(RigError, match="sh ended with 5 before it was ready:\nthe port is taken"):
        broken.await_ready(lambda: False, timeout_s=30)


def test_a_program_that_is_not_ready_in_time_is_an_error(tmp_path: Path, mark: str) -> None:
    with (
        processes.running(Process(["sleep", mark], log=tmp_path / "log")) as slow,
        pytest.raises(RigError, match="sleep was not ready after 0 s"),
    ):
        slow.await_ready(lambda: False, timeout_s=0.2)

    assert sleepers(mark) == []


def test_a_command_that_fails_is_an_error_with_its_output() -> None:
    words = ["sh", "-c", "echo said; echo complained >&2; exit 4"]

    with pytest.raises(RigError, match="ended with 4:\nsaid\ncomplained"):
        processes.run(words)
    assert processes.run(words, check=False).returncode == 4


def test_folders_of_dead_owners_are_swept_and_those_of_the_living_stay(
    own_cache: Path, tmp_path: Path
) -> None:
    ours = processes.run_folder("ours")
    owner = Process([sys.executable, "-c", OWNER], log=tmp_path / "owner.log")
    with processes.running(owner):
        owner.await_ready(lambda: owner.tail() != "", timeout_s=30)
        theirs = Path(owner.tail())
        assert theirs.parent == ours.parent == own_cache / "run"

        assert processes.sweep() == []
        owner.send(signal.SIGKILL)
        owner.wait(timeout_s=10)

        assert processes.sweep() == [theirs.name]
        assert (theirs.exists(), ours.exists()) == (False, True)


def test_a_folder_that_is_about_to_get_its_owner_stays(own_cache: Path) -> None:
    young, old = own_cache / "run" / "vm-young", own_cache / "run" / "vm-old"
    for folder in (young, old):
        folder.mkdir(parents=True)
    os.utime(old, (time.time() - 3600,) * 2)

    assert processes.sweep() == ["vm-old"]
    assert young.exists()


def test_a_free_port_is_one_the_kernel_gives_to_nobody_by_itself() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    port = processes.free_port()

    assert not processes.is_listening(port)
    assert port < max(20_000, first)


def test_a_folder_is_named_after_its_use() -> None:
    assert re.fullmatch(r"registry-\w+", processes.run_folder("registry").name)
