"""Debian packages come from the mirror that the machine's apt names, by a real apt, without a network."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig.base import cache, processes
from rig.base.processes import Process
from rig.build import debian

TESTS = Path(__file__).parents[1]
ASK_FOR_LISTS = """
import sys
from rig.build import debian
from rig.base.errors import Unavailable
try:
    debian.Suite(sys.argv[1]).packages("hello")
except Unavailable as reason:
    print(reason.what, reason.why, reason.remedy, sep="|")
"""
ASK_FOR_KEY = """
import sys
from rig.build import debian
print(debian.Suite(sys.argv[1]).key("tools", ["podman"]))
"""
DAY_S = 24 * 3600
NO_ANSWER = "the mirror does not answer, using the lists of before"
# what the machine's release offers: one package, and one that it needs
OWN_INDEX = """\
Package: podman
Version: 4.3.1
Architecture: amd64
Maintainer: nobody
Depends: conmon
Size: 1500
Filename: pool/podman.deb
SHA256: 4b4c1d1ab3bb4b0d5ac6d1b3ac1ff1ab6a5a2f6a1f8b2d6d1b4e1f8f1e6a7a01

Package: conmon
Version: 2.1.6
Architecture: amd64
Maintainer: nobody
Size: 1500
Filename: pool/conmon.deb
SHA256: 4b4c1d1ab3bb4b0d5ac6d1b3ac1ff1ab6a5a2f6a1f8b2d6d1b4e1f8f1e6a7a02
"""
CONMON_IS_INSTALLED = """\
Package: conmon
Status: install ok installed
Version: 2.1.6
Architecture: amd64
Maintainer: nobody
"""
INDEX = """\
Package: linux-image-7.2.13+deb14-cloud-amd64
Version: 7.2.13-1
Architecture: amd64
Maintainer: nobody
Size: 1500
Filename: pool/image.deb
SHA256: 4b4c1d1ab3bb4b0d5ac6d1b3ac1ff1ab6a5a2f6a1f8b2d6d1b4e1f8f1e6a7a01

Package: linux-libc-dev
Version: 7.2.13-1
Architecture: amd64
Maintainer: nobody
Size: 2000000
Filename: pool/libc-dev.deb
SHA256: 4b4c1d1ab3bb4b0d5ac6d1b3ac1ff1ab6a5a2f6a1f8b2d6d1b4e1f8f1e6a7a02
"""


@dataclass
class Machine:
    """An apt configuration of its own, and a cache of its own; the archives are folders that do not exist."""

    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        own = {"APT_CONFIG": self.folder / "apt.conf", "XDG_CACHE_HOME": self.folder, "PYTHONPATH": TESTS}
        return os.environ | {name: str(value) for name, value in own.items()}

    def has_sources(self, *archives_and_suites: tuple[str, str]) -> None:
        """Configure apt, without any list fetched yet: images for containers come like that."""
        rows = [(f"file:{self.folder}/{archive}", suite) for archive, suite in archives_and_suites]
        (self.folder / "sources.list").write_text("".join(f"deb {uri} {suite} main\n" for uri, suite in rows))
        (self.folder / "lists" / "partial").mkdir(parents=True)
        settings = {
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self.folder / "lists",
            "Dir::State::status": self.folder / "status",
        }
        (self.folder / "status").touch()
        lines = [f'{name} "{value}";\n' for name, value in settings.items()]
        (self.folder / "apt.conf").write_text("".join(lines))

    def asks_for(self, suite: str) -> str:
        """What the rig says when it wants the lists of a suite."""
        return self.run(ASK_FOR_LISTS, suite).stdout

    def run(self, script: str, *arguments: str) -> processes.Completed:
        """Run a script that uses the rig on this machine."""
        return processes.run([sys.executable, "-c", script, *arguments], env=self.environment)

    def has_fetched(self, suite: str, index: str) -> Path:
        """Give a suite the lists that were fetched a moment ago; the folder of its state."""
        uri = f"file:{self.folder}/mirror"
        folder = self.folder / "schedkit" / "apt" / suite
        for sub in ("lists/partial", "cache/archives/partial"):
            (folder / sub).mkdir(parents=True)
        (folder / "sources.list").write_text(f"deb {uri} {suite} main\n")
        (folder / "lists" / list_name(uri, suite)).write_text(index)
        for name in ("empty-status", "refreshed"):
            (folder / name).touch()
        return folder

    def sources_of(self, suite: str) -> list[tuple[str, str]]:
        """(archive, suite and component) pairs with which the rig's own apt asks for a suite."""
        text = (self.folder / "schedkit" / "apt" / suite / "sources.list").read_text()
        return re.findall(rf"file:{self.folder}/(\w+)/? (\S+ \S+)$", text, re.MULTILINE)


def list_name(uri: str, suite: str) -> str:
    """The file in which apt keeps a package list."""
    archive = uri.removeprefix("file:").replace("_", "%5f").replace("/", "_")
    return f"{archive}_dists_{suite}_main_binary-amd64_Packages"


@pytest.fixture
def own_suite() -> str:
    return debian.machine_suite()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_packages_of_the_machines_release_come_from_all_its_archives(
    machine: Machine, own_suite: str
) -> None:
    machine.has_sources(
        ("others", "stable"),
        ("security", f"{own_suite}-security"),
        ("mirror", own_suite),
        ("mirror", f"{own_suite}-updates"),
    )

    machine.asks_for(own_suite)

    assert machine.sources_of(own_suite) == [
        ("mirror", f"{own_suite} main"),
        ("security", f"{own_suite}-security main"),
        ("mirror", f"{own_suite}-updates main"),
    ]


def test_packages_of_another_release_come_from_the_same_mirror_alone(
    machine: Machine, own_suite: str
) -> None:
    machine.has_sources(("security", f"{own_suite}-security"), ("mirror", own_suite))

    machine.asks_for("sid")

    assert machine.sources_of("sid") == [("mirror", "sid main")]


def test_a_mirror_that_does_not_answer_is_named(machine: Machine, own_suite: str) -> None:
    machine.has_sources(("mirror", own_suite))

    said = machine.asks_for("sid")

    assert said.startswith("Debian sid|its package lists cannot be fetched|")
    assert f"{machine.folder}/mirror" in said


def test_a_machine_whose_apt_knows_no_mirror_is_told_to_get_one(machine: Machine, own_suite: str) -> None:
    machine.has_sources(("others", "stable"))

    said = machine.asks_for("sid")

    assert said == (
        f"Debian packages|apt has no source for {own_suite}|add a mirror of {own_suite} to /etc/apt\n"
    )


@pytest.fixture
def sid(machine: Machine, own_suite: str, monkeypatch: pytest.MonkeyPatch) -> debian.Suite:
    """A suite whose lists were fetched a moment ago."""
    machine.has_fetched("sid", INDEX)
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.folder))
    return debian.Suite("sid")


def test_packages_are_found_by_their_whole_name_with_version_and_size(sid: debian.Suite) -> None:
    image = debian.Package("linux-image-7.2.13+deb14-cloud-amd64", "7.2.13-1", 1500)

    assert sid.packages("linux-image-.*") == [image]
    assert sid.packages("linux") == []


def test_the_key_of_a_tree_changes_with_the_version_of_a_package(sid: debian.Suite, machine: Machine) -> None:
    before = sid.key("kernel", ["linux-libc-dev"], needs=False)
    assert re.fullmatch("kernel-sid-[0-9a-f]{12}", before)
    assert sid.key("kernel", ["linux-libc-dev"], needs=False) == before

    folder = machine.folder / "schedkit" / "apt" / "sid"
    (listing,) = (folder / "lists").glob("*_Packages")
    listing.write_text(INDEX.replace("7.2.13-1", "7.2.14-1"))
    (folder / "refreshed").touch()

    assert sid.key("kernel", ["linux-libc-dev"], needs=False) != before


def test_the_key_of_a_tree_changes_when_the_machine_loses_what_the_tree_counts_on(
    machine: Machine, own_suite: str
) -> None:
    machine.has_sources(("mirror", own_suite))
    machine.has_fetched(own_suite, OWN_INDEX)
    status = machine.folder / "status"
    status.write_text(CONMON_IS_INSTALLED)
    before = machine.run(ASK_FOR_KEY, own_suite).stdout
    assert before.startswith(f"tools-{own_suite}-")

    status.write_text("")

    assert machine.run(ASK_FOR_KEY, own_suite).stdout != before


def age(stamp: Path, by_s: float) -> None:
    """Let time pass."""
    then = stamp.stat().st_mtime - by_s
    os.utime(stamp, (then, then))


def test_a_mirror_that_does_not_answer_is_asked_again_soon_but_not_at_once(
    machine: Machine, own_suite: str
) -> None:
    machine.has_sources(("mirror", own_suite))
    stamp = machine.has_fetched("sid", INDEX) / "refreshed"

    age(stamp, 8 * DAY_S)
    assert NO_ANSWER in machine.run(ASK_FOR_LISTS, "sid").stderr
    assert NO_ANSWER not in machine.run(ASK_FOR_LISTS, "sid").stderr

    age(stamp, DAY_S / 12)
    assert NO_ANSWER in machine.run(ASK_FOR_LISTS, "sid").stderr


def test_who_waited_while_another_process_fetched_the_lists_does_not_fetch_them_again(
    machine: Machine, own_suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.folder))
    machine.has_sources(("mirror", own_suite))
    stamp = machine.has_fetched("sid", INDEX) / "refreshed"
    age(stamp, 8 * DAY_S)

    with cache.locked("apt-sid"):
        words = [sys.executable, "-c", ASK_FOR_LISTS, "sid"]
        waiting = Process(words, log=tmp_path / "log", env=machine.environment)
        waiting.await_ready(lambda: is_waiting_for_a_lock(waiting.pid), timeout_s=30)
        stamp.touch()

    assert waiting.wait(timeout_s=30) == 0
    assert waiting.tail() == ""


def is_waiting_for_a_lock(pid: int) -> bool:
    return re.search(rf"-> FLOCK .* {pid} ", Path("/proc/locks").read_text()) is not None


def test_a_package_that_is_gone_from_the_mirror_is_looked_for_in_fresh_lists(
    machine: Machine, own_suite: str
) -> None:
    machine.has_sources(("mirror", own_suite))
    machine.has_fetched("sid", INDEX)
    unpack = """
from pathlib import Path
from rig.build import debian
from rig.base.errors import RigError
try:
    debian.Suite("sid").unpack("headers", ["linux-libc-dev"], Path("unpacked"), needs=False)
except RigError as error:
    print(error)
"""

    done = processes.run([sys.executable, "-c", unpack], env=machine.environment, cwd=machine.folder)

    assert "download linux-libc-dev" in done.stdout
    first, _, second = done.stderr.partition("trying again with fresh lists")
    assert (NO_ANSWER in first, NO_ANSWER in second) == (False, True)


def test_programs_find_the_libraries_that_lie_in_their_trees(tmp_path: Path) -> None:
    folders = [tmp_path / "qemu/usr/lib/x86_64-linux-gnu", tmp_path / "runc/lib/x86_64-linux-gnu"]
    for folder in folders:
        folder.mkdir(parents=True)

    path = debian.library_path(tmp_path / "qemu", tmp_path / "runc", tmp_path / "empty")

    assert path == ":".join(map(str, folders))
