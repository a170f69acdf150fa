"""An entry of the cache is finished or not there, however many processes want it and however they end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rig.base import cache, polling, processes
from rig.base.processes import Process

TESTS = Path(__file__).parents[1]
# builds an entry, but waits in the middle of it for a file named `go`
SLOW_BUILD = """
import sys, time
from pathlib import Path
from rig.base import cache
folder = Path(sys.argv[1])

def build(scratch):
    (scratch / "half").touch()
    with (folder / "builds").open("a") as log:
        log.write("built\\n")
    while not (folder / "go").exists():
        time.sleep(0.02)
    (scratch / "whole").touch()

print(cache.entry("thing", "1.0", build))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "schedkit"


@pytest.fixture
def environment(own_cache: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(TESTS)}


def builder(name: str, folder: Path, environment: dict[str, str]) -> Process:
    return Process(
        [sys.executable, "-c", SLOW_BUILD, str(folder)], log=folder / f"{name}.log", env=environment
    )


def finished(scratch: Path) -> None:
    (scratch / "whole").touch()


def test_the_cache_lies_where_the_user_wants_it(own_cache: Path) -> None:
    assert cache.root() == own_cache


def test_an_entry_is_built_once_and_then_found(own_cache: Path) -> None:
    built: list[Path] = []

    folders = [cache.entry("thing", "1.0", built.append) for _ in range(3)]

    assert folders == [own_cache / "thing" / "1.0"] * 3
    assert len(built) == 1


def test_another_key_is_another_entry() -> None:
    assert cache.entry("thing", "1.0", finished) != cache.entry("thing", "1.1", finished)


def test_a_build_that_fails_leaves_nothing_that_looks_finished(own_cache: Path) -> None:
    def broken(scratch: Path) -> None:
        (scratch / "half").touch()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        cache.entry("thing", "1.0", broken)

    assert not (own_cache / "thing" / "1.0").exists()
    assert [file.name for file in cache.entry("thing", "1.0", finished).iterdir()] == ["whole"]


def test_a_build_that_is_killed_leaves_nothing_that_looks_finished(
    own_cache: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    killed = builder("killed", tmp_path, environment)
    with processes.running(killed):
        killed.await_ready((tmp_path / "builds").exists, timeout_s=30)
        killed.send(signal.SIGKILL)
        killed.wait(timeout_s=10)

    assert not (own_cache / "thing" / "1.0").exists()
    assert [file.name for file in cache.entry("thing", "1.0", finished).iterdir()] == ["whole"]


def test_two_processes_that_want_the_same_build_it_once(
    own_cache: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    first = builder("first", tmp_path, environment)
    with processes.running(first):
        first.await_ready((tmp_path / "builds").exists, timeout_s=30)
        second = builder("second", tmp_path, environment)
        with processes.running(second):
            second.await_ready(lambda: is_waiting_for_a_lock(second.pid), timeout_s=30)
            (tmp_path / "go").touch()
            codes = [process.wait(timeout_s=30) for process in (first, second)]

    assert codes == [0, 0]
    assert first.tail() == second.tail() == str(own_cache / "thing" / "1.0")
    assert (tmp_path / "builds").read_text() == "built\n"


def is_waiting_for_a_lock(pid: int) -> bool:
    return re.search(rf"-> FLOCK .* {pid} ", Path("/proc/locks").read_text()) is not None


def test_a_lock_ends_with_the_block_and_with_its_process(tmp_path: Path, environment: dict[str, str]) -> None:
    hold = "import os\nfrom rig.base import cache\nwith cache.locked('x'):\n    os.kill(os.getpid(), 9)\n"
    subprocess.run([sys.executable, "-c", hold], env=environment, check=False, timeout=30)

    with cache.locked("x"):
        waiting = Process([sys.executable, "-c", hold], log=tmp_path / "waiting.log", env=environment)
        waiting.await_ready(lambda: is_waiting_for_a_lock(waiting.pid), timeout_s=30)
        assert waiting.exit_code() is None

    polling.until(lambda: waiting.exit_code() == -signal.SIGKILL, "it got the lock")


def test_a_digest_tells_parts_from_their_concatenation() -> None:
    assert cache.digest("ab", "c") != cache.digest("a", "bc")
    assert cache.digest("ab", b"c") == cache.digest(b"ab", "c")
    assert re.fullmatch("[0-9a-f]{12}", cache.digest("ab"))


def test_the_size_of_a_folder_that_is_gone_is_nothing(tmp_path: Path) -> None:
    assert cache.size_mib(tmp_path / "gone") == 0


def test_a_small_file_that_could_not_be_written_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "choice"
    cache.write(file, "old")

    with pytest.raises(UnicodeEncodeError):
        cache.write(file, "new, but \udcff")

    assert file.read_text() == "old"
