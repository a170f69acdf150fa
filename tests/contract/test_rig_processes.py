"""Nothing a test starts outlives it, and what a killed run left behind is swept by the next."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig.base import cache, polling, processes
from rig.base.errors import RigError
from rig.base.processes import Process

TESTS = Path(__file__).parents[1]
# starts what its arguments say and waits to be killed
PARENT = """
import signal, sys
from pathlib import Path
from rig.base.processes import Process
folder, tree, *words = sys.argv[1:]
Process(words, log=Path(folder) / "child.log", tree=tree == "tree")
signal.pause()
"""
OWNER = """
import signal
from rig.base import processes
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
def mark() -> Iterator[str]:
    """A number of seconds that no other process on this machine sleeps; none does afterwards."""
    mark = f"600.{os.getpid()}{time.monotonic_ns()}"
    yield mark
    for pid in sleepers(mark):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def root() -> None:
    processes.require_mounts("process trees", "namespaces of their own need root")


def sleepers(mark: str) -> list[int]:
    """The processes that are called `sleep` with this mark as their argument."""
    return [pid for pid, words in processes.command_lines().items() if words == f"sleep {mark}"]


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
    await_sleepers(mark, 2)

    single.send(signal.SIGKILL)
    single.wait(timeout_s=10)

    assert len(sleepers(mark)) == 2


def test_when_a_deaf_tree_is_stopped_nothing_of_it_is_left(tmp_path: Path, mark: str, root: None) -> None:
    script = f"trap '' TERM; {DETACHING.format(mark)}; wait"
    deaf = Process(["sh", "-c", script], log=tmp_path / "log", tree=True)
    with processes.running(deaf):
        await_sleepers(mark, 2)

        deaf.stop(grace_s=0.3)

        assert sleepers(mark) == []


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


def test_a_command_that_takes_too_long_is_an_error_with_what_it_said_so_far(mark: str) -> None:
    words = ["sh", "-c", f"echo half way; echo and warned >&2; exec sleep {mark}"]

    with pytest.raises(RigError, match="did not end within 1 s; so far:\nhalf way\nand warned"):
        processes.run(words, timeout_s=1)
    assert sleepers(mark) == []


def test_a_command_in_a_tree_takes_its_daemons_along(mark: str, root: None) -> None:
    with pytest.raises(RigError, match="did not end within 1 s"):
        processes.run(["sh", "-c", DETACHING.format(mark)], timeout_s=1, tree=True)

    await_sleepers(mark, 0)


def test_who_may_not_mount_is_told_what_is_missing() -> None:
    """Containers often run as root without the capability; `setpriv` takes it away."""
    ask = """
from rig.base import processes
from rig.base.errors import Unavailable
try:
    processes.require_mounts("a part", "its mounts need root")
except Unavailable as missing:
    print(missing.why, missing.remedy, sep="|")
"""
    bounded = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", sys.executable, "-c", ask]
    nobody = ["unshare", "--user", "--map-user=1000", sys.executable, "-c", ask]

    without_root = processes.run(nobody).stdout
    assert without_root == "its mounts need root|run this as root\n"
    if processes.is_root():
        without_capability = processes.run(bounded).stdout
        assert without_capability.startswith("its mounts need root, and this one lacks CAP_SYS_ADMIN|")


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


def test_a_sweeper_waits_while_a_folder_gets_its_owner(own_cache: Path, tmp_path: Path) -> None:
    """To make the folder and to lock it are two steps."""
    about_to_be_owned = own_cache / "run" / "vm-new"
    about_to_be_owned.mkdir(parents=True)
    sweep = "from rig.base import processes\nprint(processes.sweep())\n"
    with cache.locked("run"):
        sweeper = Process([sys.executable, "-c", sweep], log=tmp_path / "sweeper.log")
        polling.until(lambda: is_waiting_for_a_lock(sweeper.pid), "the sweeper waits")
        assert about_to_be_owned.exists()

    assert sweeper.wait(timeout_s=10) == 0
    assert sweeper.tail() == "['vm-new']"


def test_a_new_folder_waits_for_the_sweeper(tmp_path: Path) -> None:
    with cache.locked("run"):
        owner = Process([sys.executable, "-c", OWNER], log=tmp_path / "owner.log")
        polling.until(lambda: is_waiting_for_a_lock(owner.pid), "the owner waits")

    with processes.running(owner):
        owner.await_ready(lambda: owner.tail() != "", timeout_s=30)
        assert processes.is_owned(Path(owner.tail()))


def is_waiting_for_a_lock(pid: int) -> bool:
    return re.search(rf"-> FLOCK .* {pid} ", Path("/proc/locks").read_text()) is not None


def test_two_that_ask_for_an_owner_do_not_take_each_other_for_one() -> None:
    folder = processes.run_folder("asked")
    abandoned = folder / "vm-abandoned"
    abandoned.mkdir()
    (abandoned / ".owner").touch()

    with (abandoned / ".owner").open() as another:
        fcntl.flock(another, fcntl.LOCK_SH)
        assert not processes.is_owned(abandoned)


def test_a_folder_that_somebody_else_deletes_has_no_owner(tmp_path: Path) -> None:
    assert not processes.is_owned(tmp_path / "vm-gone")


def test_a_free_port_is_one_the_kernel_gives_to_nobody_by_itself() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    port = processes.free_port()

    assert not processes.is_listening(port)
    assert port < max(20_000, first)


def test_no_port_is_given_twice() -> None:
    """The one it was given to may not listen yet. Chance alone would repeat some of so many."""
    ports = [processes.free_port() for _ in range(1000)]

    assert len(set(ports)) == 1000


def test_a_stranger_who_answers_for_a_program_that_ended_does_not_make_it_ready(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        ended = Process(["sh", "-c", "echo the port is taken; exit 5"], log=tmp_path / "log")
        assert ended.wait(timeout_s=10) == 5

        with pytest.raises(RigError, match="sh ended with 5 before it was ready"):
            ended.await_ready(lambda: processes.is_listening(port), timeout_s=5)


def test_the_family_of_a_process_includes_those_in_other_namespaces(
    tmp_path: Path, mark: str, root: None
) -> None:
    with processes.running(
        Process(["sh", "-c", DETACHING.format(mark)], log=tmp_path / "log", tree=True)
    ) as tree:
        await_sleepers(mark, 2)

        assert set(sleepers(mark)) < processes.descendants(tree.pid)
        assert os.getpid() not in processes.descendants(tree.pid)
        tree.kill()


def test_a_preferred_process_comes_before_others_together_with_its_session(
    tmp_path: Path, root: None
) -> None:
    with processes.running(Process(["sleep", "60"], log=tmp_path / "log")) as preferred:
        processes.prefer(preferred.pid)

        assert os.getpriority(os.PRIO_PROCESS, preferred.pid) < os.getpriority(os.PRIO_PROCESS, os.getpid())
        group = Path(f"/proc/{preferred.pid}/autogroup")
        assert not group.exists() or group.read_text().split()[-1].startswith("-")


def test_who_has_ended_needs_no_preference() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()

    processes.prefer(ended.pid)


def test_a_process_is_alive_until_it_ends_even_if_nobody_took_note() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            before = processes.identities()[child.pid]
            assert processes.is_alive(child.pid)
            assert before.endswith(" sleep 600")
        finally:
            child.kill()
        polling.until(lambda: not processes.is_alive(child.pid), "it has ended")
        assert child.pid not in processes.identities()


def test_a_folder_is_named_after_its_use() -> None:
    assert re.fullmatch(r"registry-\w+", processes.run_folder("registry").name)
