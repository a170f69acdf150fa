"""What somebody reads who meets `schedctl` for the first time, where something is missing."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig import processes
from schedkit.schedctl import doctor, elsewhere
from schedkit.schedctl.settings import Settings

SCHEDCTL = str(Path(sys.executable).with_name("schedctl"))


@contextmanager
def listening(root: Path, path: str) -> Iterator[None]:
    """A socket at that place below `root`, at which nobody answers."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(file.parent, os.O_RDONLY)  # the path itself may be too long for a socket
        try:
            server.bind(f"/proc/self/fd/{here}/{file.name}")
        finally:
            os.close(here)
        yield


# Runtimes of Kubernetes distributions


@pytest.mark.parametrize("place", elsewhere.CLUSTERS, ids=lambda place: place.whose)
def test_doctor_names_a_containerd_of_kubernetes_and_what_to_type(
    place: elsewhere.Place, tmp_path: Path
) -> None:
    nowhere = Settings(
        podman_socket=str(tmp_path / "podman.sock"), containerd_socket=str(tmp_path / "containerd.sock")
    )

    def remedies() -> dict[str, str]:
        return {each.name: each.remedy for each in doctor.ask(tmp_path, nowhere)}

    assert remedies() == {"podman": "", "containerd": ""}
    with listening(tmp_path, place.socket):
        found = remedies()

    assert found["podman"] == ""
    assert place.whose in found["containerd"]
    assert f"`schedctl --driver containerd --socket {place.socket}`" in found["containerd"]


def test_a_socket_that_was_tried_is_not_advised(tmp_path: Path) -> None:
    k3s, k0s, _ = elsewhere.CLUSTERS
    with listening(tmp_path, k3s.socket), listening(tmp_path, k0s.socket):
        said = elsewhere.advice(
            tmp_path, elsewhere.CLUSTERS, tried=f"containerd does not answer at {k3s.socket}"
        )

    assert k3s.socket not in said
    assert k0s.socket in said


@pytest.mark.parametrize("words", ["ps", "pull registry.example/x --allow-unsigned", "doctor"])
def test_who_has_only_a_kubernetes_is_told_the_flags_that_reach_it(words: str) -> None:
    """In a /run of its own, as a machine of k3s has it."""
    processes.require_mounts("a /run of its own", "mounts need root")
    socket_of_k3s = elsewhere.CLUSTERS[0].socket
    script = (
        "mount -t tmpfs none /run && mkdir -p /run/k3s/containerd"
        f' && "$0" -c \'import socket; socket.socket(socket.AF_UNIX).bind("{socket_of_k3s}")\' && exec "$@"'
    )
    done = processes.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, SCHEDCTL, *words.split()], check=False
    )

    assert done.returncode == 1
    assert f"`schedctl --driver containerd --socket {socket_of_k3s}`" in done.stdout + done.stderr
