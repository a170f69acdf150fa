"""Debian packages, downloaded and unpacked into the cache; nothing is installed into the system.

The mirror is the one the machine's apt is configured with. Each suite has its own apt state, so
that the machine's own lists stay untouched and no root is needed. Lists are refreshed when they are a
week old, or when what they name is no longer there; without a network the old ones, and everything
unpacked before, stay good.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from rig.base import cache, processes
from rig.base.errors import RigError, Unavailable
from rig.base.progress import say, step

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LISTS_GOOD_FOR_S = 7 * 24 * 3600
_RETRY_AFTER_S = 3600  # without an answer from the mirror: not at every call, but not next week either


@dataclass(frozen=True)
class Package:
    """One binary package as a suite's index describes it."""

    name: str
    version: str
    size: int


@once
def machine_suite() -> str:
    """The code name of the machine's own Debian release."""
    fields = platform.freedesktop_os_release()
    if fields.get("ID") != "debian" or shutil.which("apt-get") is None:
        why = "this machine has no Debian apt"
        raise Unavailable("Debian packages", why, "run the tests on Debian 12")
    return fields["VERSION_CODENAME"]


@once
def _archives() -> tuple[tuple[str, str], ...]:
    """(archive, suite) pairs of the machine's apt configuration that belong to its own release."""
    suite = machine_suite()
    wanted = {suite, f"{suite}-updates", f"{suite}-security"}
    # not `indextargets`: that tells only of lists that were fetched, and images for containers come without
    listing = processes.run(["apt-get", "update", "--print-uris"]).stdout
    rows = re.findall(r"^'(\S+)/dists/(\S+)/InRelease'", listing, re.MULTILINE)
    found = dict.fromkeys((archive, release) for archive, release in rows if release in wanted)
    if (main := next((pair for pair in found if pair[1] == suite), None)) is None:
        remedy = f"add a mirror of {suite} to /etc/apt"
        raise Unavailable("Debian packages", f"apt has no source for {suite}", remedy)
    if not _KEYRING.exists():
        raise Unavailable("Debian packages", f"{_KEYRING} is missing", "install debian-archive-keyring")
    return (main, *(pair for pair in found if pair != main))


@once
def _installed() -> Path:
    """The file in which dpkg notes what the machine has installed."""
    answer = processes.run(["apt-config", "shell", "file", "Dir::State::status/f"]).stdout
    return Path(answer.strip().removeprefix("file=").strip("'"))


class Suite:
    """One Debian suite with an apt state of its own in the cache."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._own = name == machine_suite()
        self._folder = cache.root() / "apt" / name

    def tree(self, label: str, packages: Sequence[str], *, needs: bool = True) -> Path:
        """A folder with the packages unpacked; with `needs`, also those of their needs the machine lacks."""
        key = self.key(label, packages, needs=needs)
        return cache.entry("debian", key, lambda folder: self.unpack(label, packages, folder, needs=needs))

    def key(self, label: str, packages: Sequence[str], *, needs: bool = True) -> str:
        """A cache key that changes when any of the versions to be fetched does."""
        self._refresh()
        return f"{label}-{self.name}-{cache.digest(*self._plan(packages, needs=needs))}"

    def packages(self, pattern: str) -> list[Package]:
        """All packages whose whole name matches the pattern."""
        self._refresh()
        return [package for package in self._index() if re.fullmatch(pattern, package.name)]

    def _index(self) -> Iterator[Package]:
        dump = processes.run(["apt-cache", *self._options(), "dumpavail"], timeout_s=120).stdout
        for stanza in dump.split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|Size): (.*)$", stanza, re.MULTILINE))
            if len(fields) == 3:
                yield Package(fields["Package"], fields["Version"], int(fields["Size"]))

    def _plan(self, packages: Sequence[str], *, needs: bool) -> list[str]:
        """The .deb file names that would be fetched; they hold the versions."""
        request = self._request(packages, needs=needs)
        answer = self._folder / "plans" / cache.digest(*request)
        if not self._is_fresh(answer):
            uris = self._apt_get([*request, "--print-uris"]).stdout
            files = sorted(match[1] for match in re.finditer(r"^'[^']+' (\S+\.deb) ", uris, re.MULTILINE))
            answer.parent.mkdir(exist_ok=True)
            cache.write(answer, "\n".join(files))
        return answer.read_text().splitlines()

    def _is_fresh(self, answer: Path) -> bool:
        """Asking apt takes a second; an answer stays good until the lists, or what is installed, change."""
        inputs = [self._stamp, *([_installed()] if self._own else [])]
        return answer.exists() and all(answer.stat().st_mtime > file.stat().st_mtime for file in inputs)

    def unpack(self, label: str, packages: Sequence[str], folder: Path, *, needs: bool = True) -> None:
        """Download the packages, checked against the signed lists, and unpack them into the folder."""
        self._refresh()
        with step(f"{label}: fetching {' '.join(packages)} from Debian {self.name}"):
            archives = folder / ".archives"
            request = self._request(packages, needs=needs)
            try:
                self._download(request, archives)
            except RigError:
                say(f"{label}: not to be had as listed, trying again with fresh lists")
                self._refresh(by_force=True)
                self._download(request, archives)
            for deb in sorted(archives.glob("*.deb")):
                processes.run(["dpkg-deb", "-x", deb, folder], timeout_s=300)
            shutil.rmtree(archives)

    def _download(self, request: Sequence[str], archives: Path) -> None:
        shutil.rmtree(archives, ignore_errors=True)  # or two versions of a package could lie there
        (archives / "partial").mkdir(parents=True)
        self._apt_get([*request, "-o", f"Dir::Cache::archives={archives}"], cwd=archives)

    def _request(self, packages: Sequence[str], *, needs: bool) -> list[str]:
        if not needs:
            return ["download", *packages]
        ways = ("-y", "-d", "--reinstall", "--allow-downgrades", "--no-install-recommends")
        return ["install", *ways, *packages]

    @property
    def _stamp(self) -> Path:
        """Its time is that of the lists."""
        return self._folder / "refreshed"

    def _refresh(self, *, by_force: bool = False) -> None:
        if self._has_good_lists() and not by_force:
            return
        with cache.locked(f"apt-{self.name}"):
            if by_force or not self._has_good_lists():  # another process may have been faster
                self._update()

    def _has_good_lists(self) -> bool:
        return self._stamp.exists() and time.time() - self._stamp.stat().st_mtime < _LISTS_GOOD_FOR_S

    def _update(self) -> None:
        for sub in ("lists/partial", "cache/archives/partial"):
            (self._folder / sub).mkdir(parents=True, exist_ok=True)
        (self._folder / "sources.list").write_text("".join(f"{line}\n" for line in self._sources()))
        (self._folder / "empty-status").touch()
        try:
            with step(f"Debian {self.name}: fetching its package lists"):
                self._apt_get(["update", "--error-on=any"])
        except RigError as error:
            if not self._stamp.exists():
                why = "its package lists cannot be fetched"
                raise Unavailable(f"Debian {self.name}", why, str(error)) from error
            say(f"Debian {self.name}: the mirror does not answer, using the lists of before")
            os.utime(self._stamp, (time.time() - _LISTS_GOOD_FOR_S + _RETRY_AFTER_S,) * 2)
        else:
            self._stamp.touch()

    def _sources(self) -> list[str]:
        (mirror, _), *rest = _archives()
        pairs = [(mirror, self.name), *(rest if self._own else ())]
        return [f"deb [signed-by={_KEYRING}] {archive} {suite} main" for archive, suite in pairs]

    def _apt_get(self, arguments: list[str], cwd: Path | None = None) -> processes.Completed:
        return processes.run(["apt-get", "-q", *self._options(), *arguments], timeout_s=900, cwd=cwd)

    def _options(self) -> list[str]:
        # only the machine's own suite may count on what the machine has installed
        status = _installed() if self._own else self._folder / "empty-status"
        settings = {
            "Dir::Etc::sourcelist": self._folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": "-",
            "Dir::Etc::preferencesparts": "-",
            "Dir::State::lists": self._folder / "lists",
            "Dir::State::status": status,
            "Dir::Cache": self._folder / "cache",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "APT::Sandbox::User": os.environ.get("USER", "root") if not processes.is_root() else "root",
            "APT::Get::AllowUnauthenticated": "false",
            "Debug::NoLocking": "true",
        }
        return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def machine() -> Suite:
    """The suite whose libraries fit the machine's own."""
    return Suite(machine_suite())


def newer() -> Suite:
    """Where QEMU and libbpf are new enough: of Debian 12 the backports, of later releases themselves."""
    suite = machine_suite()
    return Suite(f"{suite}-backports" if suite == "bookworm" else suite)


def library_path(*trees: Path) -> str:
    """LD_LIBRARY_PATH for programs that run in place from unpacked trees."""
    folders = [tree / sub / "x86_64-linux-gnu" for tree in trees for sub in ("usr/lib", "lib")]
    return ":".join(str(folder) for folder in folders if folder.is_dir())
