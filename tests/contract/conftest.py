"""The real things that adapters talk to: registries, signatures and container runtimes.

Everything lives for one module: starting is a matter of tenths of a second, and the next tier finds the
machine as it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.base import processes
from rig.base.certificates import Authority
from rig.build import debian
from rig.registries.hostile import Server
from rig.registries.registry import Kind, Pushed, Registry
from rig.runtimes import images
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman
from rig.signatures.cosign import Cosign
from rig.signatures.sigstore import Sigstore


@pytest.fixture(scope="session")
def folder() -> Path:
    """Scratch space of this run."""
    return processes.run_folder("contract")


@pytest.fixture(scope="session")
def authority(folder: Path) -> Authority:
    """The authority behind every certificate of this tier's registries."""
    return Authority(folder / "authority")


@pytest.fixture(scope="module", params=list(Kind), ids=str)
def registry(request: pytest.FixtureRequest, folder: Path, authority: Authority) -> Iterator[Registry]:
    """A registry with TLS, once with the referrers API and once without."""
    kind: Kind = request.param
    with Registry(kind, folder / request.module.__name__ / kind, authority) as registry:
        yield registry


@pytest.fixture(scope="module")
def any_registry(request: pytest.FixtureRequest, folder: Path, authority: Authority) -> Iterator[Registry]:
    """One registry, for tests that do not care which."""
    place = folder / request.module.__name__ / "any"
    with Registry(Kind.FALLBACK_TAGS, place, authority) as registry:
        yield registry


@pytest.fixture(scope="module")
def plain_registry(request: pytest.FixtureRequest, folder: Path) -> Iterator[Registry]:
    """One registry without TLS, as some run inside a private network."""
    with Registry(Kind.REFERRERS, folder / request.module.__name__ / "plain") as registry:
        yield registry


@pytest.fixture(scope="session")
def busybox(folder: Path) -> Path:
    """The layout of an image with one static program that can do most things: `busybox sh -c …`."""
    tree = debian.machine().tree("busybox", ["busybox-static"], needs=False)
    program = next(file for file in (tree / "bin/busybox", tree / "usr/bin/busybox") if file.exists())
    layout = folder / "busybox"
    images.write_layout([images.Image("busybox", program.read_bytes())], layout)
    return layout


@pytest.fixture(scope="session")
def push(folder: Path) -> Callable[[Registry], Pushed]:
    """Put a small image into a repository of its own, so that no test sees another's signatures."""
    numbers = itertools.count()

    def push_one(registry: Registry) -> Pushed:
        name = f"image-{next(numbers)}"
        layout = folder / name
        images.write_layout([images.Image(name, b"#!/bin/false\n")], layout)
        repository = f"rig/{name}"
        return Pushed(registry, repository, registry.client.push(layout, repository, "v1"))

    return push_one


@pytest.fixture(scope="session", params=[2, 3], ids=["cosign-2", "cosign-3"])
def cosign(request: pytest.FixtureRequest, folder: Path, authority: Authority) -> Cosign:
    """Both majors of cosign, each in its turn."""
    return Cosign(request.param, folder / f"cosign-{request.param}", ca_file=authority.ca_file)


@pytest.fixture(scope="module")
def sigstore(request: pytest.FixtureRequest, folder: Path) -> Iterator[Sigstore]:
    """The Sigstore that signers of this module use."""
    with Sigstore(folder / request.module.__name__ / "sigstore") as sigstore:
        yield sigstore


@pytest.fixture(scope="module")
def podman(folder: Path, any_registry: Registry) -> Iterator[Podman]:
    """A running Podman that trusts the registry."""
    podman = Podman(folder / "podman")
    podman.trust(any_registry)
    with podman:
        yield podman


@pytest.fixture(scope="module")
def containerd(folder: Path, any_registry: Registry) -> Iterator[Containerd]:
    """A running containerd that trusts the registry."""
    containerd = Containerd(folder / "containerd")
    containerd.trust(any_registry)
    with containerd:
        yield containerd


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that misbehaves as a test tells it to."""
    with Server() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Server]:
    """Another one, for whom nothing is meant that was meant for the first."""
    with Server() as other:
        yield other
