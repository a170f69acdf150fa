"""What somebody reads who meets `schedctl` for the first time, where something is missing."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from schedkit.runtimes.errors import NoSocketError
from schedkit.schedctl.main import main
from schedkit.schedctl.problems import elsewhere
from schedkit.schedctl.problems.problem import explain
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.verbs.machine import doctor


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


# Without a runtime


def test_who_is_not_root_is_told_so_before_a_runtime_is_started_in_vain() -> None:
    missing = NoSocketError("Podman has no socket", "start it")
    myself = os.geteuid()
    os.seteuid(myself or 65534)
    try:
        problem = explain(missing)
    finally:
        os.seteuid(myself)

    assert problem is not None
    assert problem.remedy.endswith("then run schedctl as root, for example with sudo")


# With words that are wrong


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "--output json status",
            "--output belongs to status; write the flag after the command: `schedctl status --output`.",
        ),
        ("--otput json status", "No such option '--otput'."),
        ("--output json", "No such option '--output'."),
    ],
)
def test_a_flag_before_its_verb_is_told_to_stand_behind_it(words: str, expected: str) -> None:
    done = CliRunner().invoke(main, words.split(), prog_name="schedctl")

    assert done.exit_code == 64
    assert expected in done.stderr


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
