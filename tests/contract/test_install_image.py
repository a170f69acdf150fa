"""The operator's image: small, not root, and it runs from a root it cannot write to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rig.operator import operatorimage
from rig.registries.registry import Registry
from rig.runtimes.podman import Podman
from schedkit import __version__

LIMIT_MB = 120
_RESTRICTED = ("--rm", "--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--network=none")


@pytest.fixture(scope="module")
def image(podman: Podman, any_registry: Registry) -> str:
    operatorimage.reference(any_registry)
    reference = f"{any_registry.host}/rig/sked:test"
    podman.run("pull", reference)
    return reference


@pytest.fixture(scope="module")
def configuration(podman: Podman, image: str) -> dict[str, Any]:
    [found] = json.loads(podman.run("image", "inspect", image).stdout)
    return dict(found["Config"])


def test_it_is_small_enough() -> None:
    assert operatorimage.unpacked_mb() <= LIMIT_MB


def test_it_is_not_root(configuration: dict[str, Any]) -> None:
    """By number: a kubelet cannot tell whether a name is root's."""
    assert configuration["User"] == "65532:65532"


def test_it_runs_as_a_restricted_pod_would(podman: Podman, image: str) -> None:
    said = podman.run("run", *_RESTRICTED, image, "--version").stdout

    assert said.strip() == f"sked {__version__}"


def test_nothing_in_it_must_be_compiled_at_start(podman: Podman, image: str) -> None:
    """Its root is read-only in a cluster: every start would compile what is not compiled here."""
    missing = (
        "import pathlib, importlib.util as u;"
        "print([str(f) for f in pathlib.Path('/opt/schedkit').rglob('*.py')"
        " if not pathlib.Path(u.cache_from_source(f)).exists()])"
    )

    said = podman.run("run", *_RESTRICTED, "--entrypoint", "/usr/bin/python3", image, "-c", missing).stdout
    assert said.strip() == "[]"


def test_what_only_a_terminal_needs_is_left_out(podman: Podman, image: str) -> None:
    """The logging library would load it wherever it is, and the manager has little memory."""
    ask = "import importlib.util as u; print([name for name in ('structlog', 'rich') if u.find_spec(name)])"

    said = podman.run("run", *_RESTRICTED, "--entrypoint", "/usr/bin/python3", image, "-c", ask).stdout
    assert said.strip() == "['structlog']"
