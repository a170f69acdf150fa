"""Debian packages come from the mirror that the machine's apt names, by a real apt, without a network."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig import debian, processes

TESTS = Path(__file__).parents[1]
ASK_FOR_LISTS = """
import sys
from rig import debian
from rig.errors import Unavailable
try:
    debian.Suite(sys.argv[1]).packages("hello")
except Unavailable as reason:
    print(reason.what, reason.why, reason.remedy, sep="|")
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
        }
        lines = [f'{name} "{value}";\n' for name, value in settings.items()]
        (self.folder / "apt.conf").write_text("".join(lines))

    def asks_for(self, suite: str) -> str:
        """What the rig says when it wants the lists of a suite."""
        asking = [sys.executable, "-c", ASK_FOR_LISTS, suite]
        return processes.run(asking, env=self.environment).stdout

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
    uri = f"file:{machine.folder}/mirror"
    folder = machine.folder / "schedkit" / "apt" / "sid"
    for sub in ("lists/partial", "cache/archives/partial"):
        (folder / sub).mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb {uri} sid main\n")
    (folder / "lists" / list_name(uri, "sid")).write_text(INDEX)
    for name in ("empty-status", "refreshed"):
        (folder / name).touch()
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


def test_programs_find_the_libraries_that_lie_in_their_trees(tmp_path: Path) -> None:
    folders = [tmp_path / "qemu/usr/lib/x86_64-linux-gnu", tmp_path / "runc/lib/x86_64-linux-gnu"]
    for folder in folders:
        folder.mkdir(parents=True)

    path = debian.library_path(tmp_path / "qemu", tmp_path / "runc", tmp_path / "empty")

    assert path == ":".join(map(str, folders))
