"""What to say when no runtime answers, and which are on this machine elsewhere than they were looked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from schedkit.schedctl.problems.problem import Problem


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

_NO_RUNTIME = (
    "`systemctl start podman.socket` starts Podman; `schedctl doctor` says more, "
    "and where schedctl looked for sockets"
)


def no_runtime(root: Path, problems: Sequence[str]) -> Problem:
    """The problem of a verb that has no runtime to ask; `problems` says why each of them does not answer."""
    why = "; ".join(problems) or "neither of them has a socket"
    remedies = (advice(root, CLUSTERS, tried=why), _NO_RUNTIME)
    return Problem("neither Podman nor containerd answers", why=why, remedy="; ".join(filter(None, remedies)))


def advice(root: Path, places: tuple[Place, ...], *, tried: str) -> str:
    """What to type for each of these that is there and is not named in `tried`; empty: there is none."""
    # os.path: one that we may not see is as good as none, and no error
    found = [
        each
        for each in places
        if os.path.exists(root / each.socket.lstrip("/")) and each.socket not in tried  # noqa: PTH110
    ]
    return "; ".join(
        f"{each.whose} is on this machine: begin the command with `schedctl {each.flags}`" for each in found
    )
