"""What a newcomer to `schedctl` reads where something is missing: a network, a runtime, the right word."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rig.base import processes
from schedkit.schedctl.problems import elsewhere

SCHEDCTL = str(Path(sys.executable).with_name("schedctl"))


def told(*words: str, home: Path, apart: tuple[str, ...] = ()) -> tuple[int, dict[str, str]]:
    """The exit code, and what a person reads: what happened, why, and what to do next."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = processes.run([*apart, SCHEDCTL, *words], env=environment, check=False)
    lines = (line.strip().partition(":") for line in done.stderr.splitlines())
    return done.returncode, {key: words.strip() for key, _, words in lines}


# What is refused


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("catalog update {file} --sha256 0", "publisher"),
        ("package {file} --image registry.example/x:1", "built for 64-bit Linux"),
    ],
)
def test_what_is_refused_comes_with_what_to_do_next(words: str, remedy: str, tmp_path: Path) -> None:
    file = tmp_path / "refused"
    file.write_text("{}")

    code, said = told(*words.format(file=file).split(), home=tmp_path)

    assert code == 1
    assert said["why"]
    assert remedy in said["next"]


# Without a network

NO_NETWORK = ("unshare", "--net")


@pytest.mark.parametrize("words", ["info scx_rusty", "verify scx_rusty", "trust update"])
def test_without_a_network_that_is_what_is_said_and_no_number(words: str, tmp_path: Path) -> None:
    processes.require_mounts("a machine without a network", "a network of its own needs root")

    code, said = told(*words.split(), home=tmp_path, apart=NO_NETWORK)

    assert code == 1
    assert "could not be reached" in said["why"]
    assert "Errno" not in said["why"]
    assert "network" in said["next"]
    assert "HTTPS_PROXY" in said["next"]


@pytest.mark.parametrize("words", ["list", "catalog show scx_lavd", "trust show"])
def test_what_needs_no_network_does_without(words: str, tmp_path: Path) -> None:
    processes.require_mounts("a machine without a network", "a network of its own needs root")

    assert told(*words.split(), home=tmp_path, apart=NO_NETWORK)[0] == 0


# Without a runtime


@pytest.mark.parametrize(
    "words", ["ps", "logs", "stop", "run scx_rusty", "switch scx_rusty", "pull scx_rusty"]
)
def test_without_a_runtime_every_verb_says_how_to_start_one(words: str, tmp_path: Path) -> None:
    processes.require_mounts("a verb that changes the scheduler", "it needs root")
    nowhere = [f"--{driver}-socket={tmp_path}/{driver}" for driver in ("podman", "containerd")]

    code, said = told(*nowhere, *words.split(), home=tmp_path)

    assert code == 1
    assert "`systemctl start podman.socket`" in said["next"]


# With words that are wrong


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("info rusty", "Did you mean 'scx_rusty'?"),
        ("run scx_rusty:1.1.4", "A version is chosen with a flag: `scx_rusty --version 1.1.4`"),
        ("run scx_rusty --preset fast", "leave --preset out"),
        ("package ./nothing --image registry.example/x:1", "check the path"),
        ("--layout ./nothing info scx_rusty", "`schedctl mirror NAME --to oci:FOLDER`"),
        ("--catalog ./nothing list", "check the path"),
    ],
)
def test_a_wrong_word_is_told_with_the_right_one(words: str, expected: str, tmp_path: Path) -> None:
    code, said = told(*words.split(), home=tmp_path)

    assert code == 1
    assert expected in said["next"]


# Runtimes of Kubernetes distributions


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
