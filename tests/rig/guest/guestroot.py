"""What the guests have beyond the machine's own root: one unpacked tree, laid over it in the guest.

Programs in it stand at their ordinary paths inside a guest, as if they were installed there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from rig.base import cache, processes
from rig.build import debian

_PACKAGES = (
    "conmon",
    "containerd",
    "containernetworking-plugins",
    "dnsmasq-base",
    "iproute2",
    "kmod",
    "nftables",
    "podman",
    "procps",
    "runc",
)


def tree(*, has_systemd: bool = False) -> Path:
    """The tree, with the layout of a merged /usr as the machine's own root has."""
    suite, label = debian.machine(), "guest-systemd" if has_systemd else "guest"
    packages = (*_PACKAGES, "systemd") if has_systemd else _PACKAGES
    key = suite.key(label, packages)
    return cache.entry("guest-root", key, lambda folder: _unpack(suite, label, packages, folder))


def kmod(name: str, *arguments: str) -> None:
    """Run one of kmod's programs (depmod, modprobe …) on the host, from the tree."""
    root = tree()
    argv = ["bash", "-c", 'exec -a "$0" "$@"', name, str(root / "usr/bin/kmod"), *arguments]
    processes.run(argv, env=os.environ | {"LD_LIBRARY_PATH": debian.library_path(root)}, timeout_s=120)


def _unpack(suite: debian.Suite, label: str, packages: Sequence[str], folder: Path) -> None:
    suite.unpack(label, packages, folder)
    # packages of Debian 12 still ship /bin, /sbin and /lib, which are links in a real root
    for name in ("bin", "sbin", "lib"):
        if (folder / name).is_dir():
            shutil.copytree(folder / name, folder / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(folder / name)
