"""Runtimes that are on this machine, and are not where they were looked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """Where a runtime listens, and what to type to reach it there."""

    whose: str
    socket: str
    flags: str


def _containerd_of(whose: str, socket: str) -> Place:
    return Place(f"the containerd of {whose}", socket, f"--driver containerd --socket {socket}")


CLUSTERS = (
    _containerd_of("k3s or RKE2", "/run/k3s/containerd/containerd.sock"),
    _containerd_of("k0s", "/run/k0s/containerd.sock"),
    _containerd_of("MicroK8s", "/var/snap/microk8s/common/run/containerd.sock"),
)
USUAL = (
    Place("Podman", "/run/podman/podman.sock", "--driver podman"),
    Place("containerd", "/run/containerd/containerd.sock", "--driver containerd"),
)


def advice(root: Path, places: tuple[Place, ...], *, tried: str) -> str:
    """What to type for each of these that is there and is not named in `tried`; empty: there is none."""
    # os.path: one that we may not see is as good as none, and no error
    found = [
        each
        for each in places
        if os.path.exists(root / each.socket.lstrip("/")) and each.socket not in tried  # noqa: PTH110
    ]
    return "; ".join(f"{each.whose} is here: begin with `schedctl {each.flags}`" for each in found)
