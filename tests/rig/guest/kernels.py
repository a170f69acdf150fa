"""Kernels from Debian's archives: of each kind the newest in the first suite that offers it.

A kind is a promise to tests ("a 6.x with sched_ext"), not a version. Archives move: when a kind
is gone, the nearest kernel that keeps the main promise takes its place, and the summary names it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.base import cache
from rig.base.errors import RigError, Unavailable
from rig.base.progress import say
from rig.build import debian
from rig.guest import guestroot

_PACKAGE = r"linux-(image|binary|modules|base)-(\d+\.\d+\.\d+\S*-cloud-amd64)"
_STUB_SIZE = 1_000_000  # since 6.19 `linux-image-*` only names other packages
_CHOICE_GOOD_FOR_S = 7 * 24 * 3600
_HANDED_TO_GUEST = "RIG_GUEST_KERNEL_{}"  # by kind; set only inside a guest, which cannot ask an archive


@dataclass(frozen=True)
class Kind:
    """What a test may ask for."""

    name: str
    promise: str
    has_sched_ext: bool
    major: int | None  # None: any will do
    suites: tuple[str, ...]  # in order of preference


KINDS = {
    kind.name: kind
    for kind in (
        Kind("6", "a 6.x that attaches real schedulers", True, 6, ("trixie-backports", "forky", "sid")),
        Kind("7", "a 7.x that attaches real schedulers", True, 7, ("sid", "forky", "trixie-backports")),
        Kind("none", "a kernel without sched_ext", False, None, ("trixie", "bookworm-backports", "bookworm")),
    )
}


class NotOffered(Unavailable):
    """No archive has a kernel without sched_ext any more: a fact about the world, not about this machine."""


@dataclass(frozen=True, order=True)
class Offer:
    """One kernel that a suite offers, as the packages that hold it."""

    version: tuple[int, ...]
    release: str
    suite: str
    packages: tuple[str, ...]

    @property
    def major(self) -> int:
        return self.version[0]

    @property
    def has_malformed_btf(self) -> bool:
        """Backported 7.x kernels are built with a pahole that is too old for their kfuncs."""
        return self.suite == "trixie-backports" and self.major >= 7


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
    def description(self) -> str:
        """One line for the summary of a run."""
        return self.note or f"kernel kind {self.kind}: {self.release}"


def obtain(kind_name: str) -> Kernel:
    """The kernel of that kind; raises `Unavailable` when there is none, and none that could stand in."""
    kind = KINDS[kind_name]
    if (known := _handed_in(kind) or _remembered(kind)) is not None:
        return known
    troubles: list[RigError | Unavailable] = []
    kernel = choose(kind, list(_all_offers(kind, troubles)), _fetched, troubles)
    if not troubles:  # else the next run tries again for a better one
        _remember(kernel)
    return kernel


def choose(
    kind: Kind,
    offers: Iterable[Offer],
    fetch: Callable[[Offer], Path],
    troubles: list[RigError | Unavailable],
) -> Kernel:
    """The best offer that can be fetched and is right about sched_ext; adds what went wrong to `troubles`."""
    for offer in rank(kind, offers):
        try:
            folder = fetch(offer)
        except (RigError, Unavailable) as error:
            say(f"kernel {offer.release} of {offer.suite} cannot be fetched, trying the next: {error}")
            troubles.append(error)
            continue
        if has_sched_ext(folder / "config") == kind.has_sched_ext:
            return Kernel(kind.name, offer.release, folder, note(kind, offer))
    raise absence(kind, troubles)


def rank(kind: Kind, offers: Iterable[Offer]) -> list[Offer]:
    """Best first: the right major, sound BTF, the preferred suite, newest; then whatever comes nearest."""

    def distance(offer: Offer) -> tuple[int, bool, int, tuple[int, ...]]:
        majors = 0 if kind.major is None else abs(offer.major - kind.major)
        return (majors, offer.has_malformed_btf, kind.suites.index(offer.suite), _newest_first(offer))

    return sorted(offers, key=distance)


def _newest_first(offer: Offer) -> tuple[int, ...]:
    return tuple(-part for part in offer.version)


def note(kind: Kind, offer: Offer) -> str | None:
    """What to tell about a kernel that breaks the kind's promise; None when it keeps it."""
    if not (breaches := list(_breaches(kind, offer))):
        return None
    stands_in = f"{offer.release} from {offer.suite} stands in, but {' and '.join(breaches)}"
    return f"kernel kind {kind.name} ({kind.promise}) is not to be had: {stands_in}"


def _breaches(kind: Kind, offer: Offer) -> Iterator[str]:
    if kind.major not in {None, offer.major}:
        yield f"it is a {offer.major}.x"
    if kind.has_sched_ext and offer.has_malformed_btf:
        yield "its malformed BTF keeps real schedulers from loading"


def absence(kind: Kind, troubles: Sequence[RigError | Unavailable]) -> Unavailable:
    """Why there is no kernel of the kind: this machine could not get at one, or no archive has one."""
    what = f"kernel kind {kind.name}"
    if troubles:
        return Unavailable(
            what, f"none could be fetched: {troubles[0]}", "mend that; the mirror is named in /etc/apt"
        )
    wanted, problem = ("with", Unavailable) if kind.has_sched_ext else ("without", NotOffered)
    why = f"no kernel {wanted} sched_ext in {', '.join(kind.suites)}"
    return problem(what, why, f"name a suite that has one in {__name__}")


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


def _all_offers(kind: Kind, troubles: list[RigError | Unavailable]) -> Iterator[Offer]:
    debian.machine_suite()  # a machine without apt is not a mirror without kernels: it says so itself
    for suite in kind.suites:
        try:
            yield from offers_in(debian.Suite(suite).packages(_PACKAGE), suite)
        except (RigError, Unavailable) as reason:
            say(f"skipping {suite}: {reason}")
            troubles.append(reason)


def _fetched(offer: Offer) -> Path:
    return cache.entry("kernel", offer.release, lambda scratch: _fetch(offer, scratch))


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
    return folder / f"{kind.name}-{cache.digest(repr(kind))}.json"


def environment_for_guest(kernel: Kernel) -> Mapping[str, str]:
    """With this environment `obtain` gives that kernel for its kind, without looking any further."""
    return {_HANDED_TO_GUEST.format(kernel.kind): _as_json(kernel)}


def _handed_in(kind: Kind) -> Kernel | None:
    handed = os.environ.get(_HANDED_TO_GUEST.format(kind.name))
    return _from_json(kind, handed) if handed else None


def _remember(kernel: Kernel) -> None:
    cache.write(_choice_file(KINDS[kernel.kind]), _as_json(kernel))


def _remembered(kind: Kind) -> Kernel | None:
    """The choice of this week, if its folder is still there."""
    file = _choice_file(kind)
    if not file.exists() or time.time() - file.stat().st_mtime > _CHOICE_GOOD_FOR_S:
        return None
    kernel = _from_json(kind, file.read_text())
    return kernel if kernel.folder.is_dir() else None


def _as_json(kernel: Kernel) -> str:
    return json.dumps({"release": kernel.release, "note": kernel.note})


def _from_json(kind: Kind, text: str) -> Kernel:
    choice = json.loads(text)
    folder = cache.root() / "kernel" / choice["release"]
    return Kernel(kind.name, choice["release"], folder, choice["note"])
