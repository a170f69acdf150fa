"""Kernels from Debian's archives: the newest of each kind that the mirror still offers.

A kind is a promise to tests ("a 6.x with sched_ext"), not a version. Archives move: when a kind
is gone, the nearest kernel that keeps the main promise takes its place, and the summary names it.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rig import cache, debian, guestroot
from rig.errors import RigError, Unavailable
from rig.progress import say

_PACKAGE = r"linux-(image|binary|modules|base)-(\d+\.\d+\.\d+\S*-cloud-amd64)"
_STUB_SIZE = 1_000_000  # since 6.19 `linux-image-*` only names other packages
_CHOICE_GOOD_FOR_S = 7 * 24 * 3600


@dataclass(frozen=True)
class Kind:
    """What a test may ask for."""

    name: str
    promise: str
    has_sched_ext: bool
    major: int
    suites: tuple[str, ...]  # in order of preference


# sid before backports: Debian's backported 7.2 was built with a pahole whose BTF no real scheduler loads
KINDS = {
    kind.name: kind
    for kind in (
        Kind("6", "a 6.x with sched_ext", True, 6, ("trixie-backports", "forky", "sid")),
        Kind("7", "a 7.x with sched_ext and sound BTF", True, 7, ("sid", "forky", "trixie-backports")),
        Kind("none", "a kernel without sched_ext", False, 6, ("trixie", "bookworm-backports")),
    )
}


@dataclass(frozen=True, order=True)
class Offer:
    """One kernel that a suite offers, as the packages that hold it."""

    version: tuple[int, ...]
    release: str
    suite: str
    packages: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel, ready to boot."""

    kind: str
    release: str
    folder: Path
    note: str | None  # None: it is what the kind promises

    @property
    def image(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def config(self) -> Path:
        return self.folder / "config"


def obtain(kind_name: str) -> Kernel:
    """The kernel of that kind; raises `Unavailable` when the mirror has none that could stand in."""
    kind = KINDS[kind_name]
    if (known := _remembered(kind)) is not None:
        return known
    for offer in rank(kind, _all_offers(kind)):
        try:
            kernel = _unpacked(kind, offer)
        except RigError as error:
            say(f"kernel {offer.release} of {offer.suite} cannot be fetched, trying the next: {error}")
            continue
        if has_sched_ext(kernel.config) == kind.has_sched_ext:
            _remember(kernel)
            return kernel
    why = f"no suite offers {kind.promise}"
    raise Unavailable(f"kernel kind {kind.name}", why, "check the mirror in /etc/apt")


def rank(kind: Kind, offers: Iterable[Offer]) -> list[Offer]:
    """Best first: the right major from the preferred suite, newest; then whatever comes nearest."""

    def distance(offer: Offer) -> tuple[int, int, tuple[int, ...]]:
        suite = kind.suites.index(offer.suite) if offer.suite in kind.suites else len(kind.suites)
        return (abs(offer.version[0] - kind.major), suite, tuple(-part for part in offer.version))

    return sorted(offers, key=distance)


def offers_in(packages: Iterable[debian.Package], suite: str) -> list[Offer]:
    """The kernels whose every package is there; stubs that point at vanished packages do not count."""
    parts: dict[str, dict[str, debian.Package]] = {}
    for package in packages:
        match = re.fullmatch(_PACKAGE, package.name)
        if match:
            parts.setdefault(match[2], {})[match[1]] = package
    return [Offer(_version(release), release, suite, names) for release, names in _complete(parts)]


def _complete(parts: dict[str, dict[str, debian.Package]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for release, found in parts.items():
        if {"binary", "modules", "base"} <= found.keys():
            yield release, tuple(found[part].name for part in ("base", "binary", "modules"))
        elif "image" in found and found["image"].size > _STUB_SIZE:
            yield release, (found["image"].name,)


def _version(release: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", release)
    assert match is not None, release
    return tuple(map(int, match.groups()))


def has_sched_ext(config: Path) -> bool:
    return "CONFIG_SCHED_CLASS_EXT=y" in config.read_text().splitlines()


def _all_offers(kind: Kind) -> list[Offer]:
    debian.machine_suite()  # a machine without apt is not a mirror without kernels: it says so itself
    offers: list[Offer] = []
    for suite in kind.suites:
        try:
            offers += offers_in(debian.Suite(suite).packages(_PACKAGE), suite)
        except Unavailable as reason:
            say(f"skipping {suite}: {reason}")
    return offers


def _unpacked(kind: Kind, offer: Offer) -> Kernel:
    folder = cache.entry("kernel", offer.release, lambda scratch: _fetch(offer, scratch))
    note = None
    if offer.version[0] != kind.major:
        instead = f"{offer.release} from {offer.suite} stands in"
        note = f"kernel kind {kind.name} ({kind.promise}) is not offered: {instead}"
    return Kernel(kind.name, offer.release, folder, note)


def _fetch(offer: Offer, folder: Path) -> None:
    debian.Suite(offer.suite).unpack(f"kernel {offer.release}", offer.packages, folder, needs=False)
    modules = folder / "usr/lib/modules" / offer.release
    for name, places in {
        "vmlinuz": (modules / "vmlinuz", folder / f"boot/vmlinuz-{offer.release}"),
        "config": (modules / "config", folder / f"boot/config-{offer.release}"),
    }.items():
        shutil.move(next(place for place in places if place.exists()), folder / name)
    (folder / "lib").symlink_to("usr/lib")
    # packages ship no module index, and the machine may have no kmod: the guest's own makes it
    guestroot.kmod("depmod", "-b", str(folder), offer.release)


def _choice_file(kind: Kind) -> Path:
    folder = cache.root() / "kernel-choices"
    folder.mkdir(exist_ok=True)
    return folder / f"{kind.name}.json"


def _remember(kernel: Kernel) -> None:
    choice = {"release": kernel.release, "note": kernel.note}
    _choice_file(KINDS[kernel.kind]).write_text(json.dumps(choice))


def _remembered(kind: Kind) -> Kernel | None:
    """The choice of this week, if its folder is still there."""
    file = _choice_file(kind)
    if not file.exists() or time.time() - file.stat().st_mtime > _CHOICE_GOOD_FOR_S:
        return None
    choice = json.loads(file.read_text())
    folder = cache.root() / "kernel" / choice["release"]
    return Kernel(kind.name, choice["release"], folder, choice["note"]) if folder.is_dir() else None
